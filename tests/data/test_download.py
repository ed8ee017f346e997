import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from forecast.data.download import locate
from forecast.errors import InputError

BODY = b"date,load\n2016-07-01,1\n" * 20_000
SHA256 = hashlib.sha256(BODY).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/none.csv":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unsized.csv":
            self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[: len(BODY) // 2] if self.path == "/short.csv" else BODY)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = False  # so that closing the server waits for them
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ["whole.csv", "unsized.csv"])
def test_a_file_is_fetched_whole_and_alone(server: str, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    path = locate(name, url=f"{server}/{name}", sha256=SHA256.upper(), data_dir=folder)
    assert path == folder / name
    assert path.read_bytes() == BODY
    assert left(folder) == [name]


def test_a_fetched_file_is_not_fetched_again(server: str, tmp_path: Path) -> None:
    first = locate("whole.csv", url=f"{server}/whole.csv", sha256=SHA256, data_dir=tmp_path)
    assert locate("whole.csv", url="http://127.0.0.1:9/", sha256=SHA256, data_dir=tmp_path) == first


@pytest.mark.parametrize(
    ("address", "sha256", "reason"),
    [
        ("/short.csv", SHA256, r"\d+ of 460000 bytes"),
        ("/whole.csv", "0" * 64, "sha256 is .*, expected 000000000000"),
        ("/none.csv", SHA256, "HTTP 404"),
    ],
)
def test_what_arrives_wrong_leaves_nothing(server: str, tmp_path: Path, address: str, sha256: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        locate("my.csv", url=server + address, sha256=sha256, data_dir=tmp_path)
    message = str(caught.value)
    assert message.startswith("my.csv could not be downloaded (")
    assert message.endswith(f"fetch {server}{address} and put it at {tmp_path / 'my.csv'}")
    assert caught.match(reason)
    assert "\n" not in message
    assert left(tmp_path) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/my.csv", "file:///etc/hostname", "http://"])
def test_an_address_that_does_not_answer_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    with pytest.raises(InputError, match="could not be downloaded"):
        locate("my.csv", url=url, sha256=None, data_dir=tmp_path / "data")
    assert left(tmp_path) == []


def test_the_named_folder_comes_first_then_the_project_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("data", "named"):
        Path(folder).mkdir()
        (Path(folder) / "my.csv").write_bytes(BODY)
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tmp_path / "named"))
    assert locate("my.csv", url=None, sha256=SHA256) == tmp_path / "named" / "my.csv"
    (tmp_path / "named" / "my.csv").unlink()
    assert locate("my.csv", url=None, sha256=SHA256) == Path("data") / "my.csv"
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"FORECAST_DATA_DIR is .* no folder"):
        locate("my.csv", url=None, sha256=SHA256)


def test_another_file_of_that_name_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    (tmp_path / "my.csv").write_bytes(b"other")
    with pytest.raises(InputError, match=r"my.csv is another file than meant \(sha256 .*remove it"):
        locate("my.csv", url="http://127.0.0.1:9/", sha256=SHA256, data_dir=tmp_path)
    assert (tmp_path / "my.csv").read_bytes() == b"other"
    assert locate("my.csv", url=None, sha256=None, data_dir=tmp_path) == tmp_path / "my.csv"


def test_a_file_without_an_address_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    with pytest.raises(InputError, match=r"my.csv is not in .*: put it there.*FORECAST_DATA_DIR"):
        locate("my.csv", url=None, sha256=None, data_dir=tmp_path)
