import contextlib
import hashlib
import os
import platform
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from forecast.common.errors import InputError
from forecast.tables import download
from forecast.tables.download import locate

ROOT = Path(__file__).resolve().parents[2]
BODY = b"date,load\n2016-07-01,1\n" * 20_000
SHA256 = hashlib.sha256(BODY).hexdigest()


RELEASED = threading.Event()
"""Event that ends the stalled responses."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/none.csv":
            self.send_error(404)
            return
        if self.path == "/elsewhere.csv":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1:9/my.csv")
            self.end_headers()
            return
        self.send_response(200)
        if self.path == "/chunked.csv":
            self.send_header("Transfer-Encoding", "chunked")
        elif self.path != "/unsized.csv":
            self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if self.path == "/chunked.csv":  # the chunk that says the end is missing
            self.wfile.write(b"%x\r\n%s\r\n" % (len(BODY) // 2, BODY[: len(BODY) // 2]))
        else:
            self.wfile.write(BODY if self.path in ("/whole.csv", "/unsized.csv") else BODY[: len(BODY) // 2])
        if self.path == "/reset.csv":
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if self.path == "/stalled.csv":
            self.wfile.flush()
            RELEASED.wait(30)

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # a connection that was reset, or whose client was killed
            super().finish()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    monkeypatch.setattr(download, "SCHEME", "http://")  # a certificate is the system's business
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    RELEASED.clear()
    server.daemon_threads = False  # so that closing the server waits for them
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    RELEASED.set()
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
        ("/chunked.csv", SHA256, "IncompleteRead"),
        ("/reset.csv", SHA256, "reset|bytes arrived"),
        ("/whole.csv", "0" * 64, "sha256 is .*, expected 000000000000"),
        ("/none.csv", SHA256, "HTTP 404"),
        ("/elsewhere.csv", SHA256, "does not begin with"),
    ],
)
def test_a_wrong_download_leaves_no_file(server: str, tmp_path: Path, address: str, sha256: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        locate("my.csv", url=server + address, sha256=sha256, data_dir=tmp_path)
    message = str(caught.value)
    assert message.startswith("my.csv could not be downloaded (")
    assert message.endswith(f"fetch {server}{address} and put it at {tmp_path / 'my.csv'}")
    assert caught.match(reason)
    assert "\n" not in message
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["whole.csv", "unsized.csv"])
def test_a_file_above_the_cap_is_given_up_and_leaves_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(download, "LARGEST", 100_000)
    with pytest.raises(InputError, match=r"bytes.*100,000|100,000 bytes"):
        locate("my.csv", url=f"{server}/{name}", sha256=SHA256, data_dir=tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("url", "sha256", "reason"),
    [
        ("http://127.0.0.1:9/my.csv", SHA256, "does not begin with https://"),
        ("https://127.0.0.1:9/my.csv", None, "no sha256 is set"),
    ],
)
def test_an_address_that_cannot_be_trusted_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, sha256: str | None, reason: str
) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    with pytest.raises(InputError, match=reason):
        locate("my.csv", url=url, sha256=sha256, data_dir=tmp_path)


def test_a_server_that_falls_silent_is_given_up_and_leaves_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecast.tables.download._TIMEOUT_S", 0.2)
    with pytest.raises(InputError, match=r"my.csv could not be downloaded \(timed out\): fetch"):
        locate("my.csv", url=f"{server}/stalled.csv", sha256=SHA256, data_dir=tmp_path)
    assert left(tmp_path) == []


@pytest.fixture
def killed(server: str, tmp_path: Path) -> Path:
    """Kill a process in the middle of its download of my.csv; return its folder."""
    code = (
        "import sys; from pathlib import Path; from forecast.tables import download; download.SCHEME = 'http://';"
        "download.locate('my.csv', url=sys.argv[1], sha256='0' * 64, data_dir=Path(sys.argv[2]))"
    )
    words = [sys.executable, "-c", code, f"{server}/stalled.csv", str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 30
        while not any(path.stat().st_size for path in tmp_path.iterdir()) and time.monotonic() < end:
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -9
    return tmp_path


def test_a_killed_download_leaves_no_file_of_that_name_and_the_next_cleans_up(server: str, killed: Path) -> None:
    (part,) = left(killed)
    assert part.endswith(".part")
    path = locate("my.csv", url=f"{server}/whole.csv", sha256=SHA256, data_dir=killed)
    assert path.read_bytes() == BODY
    assert left(killed) == ["my.csv"]


def test_only_partial_files_of_this_machine_are_removed(server: str, killed: Path) -> None:
    (abandoned,) = left(killed)
    host = platform.node()
    others = [".my.csv.elsewhere.1.part", f".my.csv.{host}.{os.getppid()}.part", f".other.csv.{host}.999999999.part"]
    for name in others:
        (killed / name).write_bytes(b"under way")
    locate("my.csv", url=f"{server}/whole.csv", sha256=SHA256, data_dir=killed)
    assert left(killed) == sorted([*others, "my.csv"])
    assert abandoned not in others


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
    with pytest.raises(InputError, match=r"FORECAST_DATA_DIR is .* not a folder"):
        locate("my.csv", url=None, sha256=SHA256)


def test_another_file_of_that_name_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    (tmp_path / "my.csv").write_bytes(b"other")
    with pytest.raises(InputError, match=r"my.csv is not the expected file \(sha256 .*remove it"):
        locate("my.csv", url="http://127.0.0.1:9/", sha256=SHA256, data_dir=tmp_path)
    assert (tmp_path / "my.csv").read_bytes() == b"other"
    assert locate("my.csv", url=None, sha256=None, data_dir=tmp_path) == tmp_path / "my.csv"


def test_a_failed_download_describes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    options: dict[str, object] = {"sha256": None, "about": "9 rows of one day", "data_dir": tmp_path}
    with pytest.raises(InputError, match=r"^my.csv \(9 rows of one day\) is not in .*: put it there"):
        locate("my.csv", url=None, **options)
    with pytest.raises(InputError, match=r"^my.csv \(9 rows of one day\) could not be downloaded .*: fetch"):
        locate("my.csv", url="http://127.0.0.1:9/my.csv", **options)


def test_a_file_without_an_address_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORECAST_DATA_DIR", raising=False)
    with pytest.raises(InputError, match=r"my.csv is not in .*: put it there.*FORECAST_DATA_DIR"):
        locate("my.csv", url=None, sha256=None, data_dir=tmp_path)
