"""What a request must have before it is answered, and the limits of number, size and time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from forecast.common.errors import InputError
from forecast.serve import bodies, guard
from forecast.serve.__main__ import main, serve
from forecast.serve.app import Service
from tests.conftest import TinyRun
from tests.support.service import CSV, Client, serving

if TYPE_CHECKING:
    from forecast.serve.served import Served

TOKEN = "a token of many characters"


@pytest.fixture(scope="module")
def model(tiny_run: TinyRun) -> Served:
    from forecast.predict.ensemble import load
    from forecast.serve.served import Served

    return Served("hours", load(tiny_run.path))


@pytest.fixture(scope="module")
def guarded(model: Served) -> Iterator[Client]:
    with serving([model], TOKEN, [*guard.LOOPBACK, "forecast.example.org"]) as client:
        yield client


HOSTS = [
    ("127.0.0.1:9", 200), ("LOCALHOST", 200), ("[::1]:8000", 200), ("evil.example", 403),
    ("127.0.0.1.evil.example", 403), ("127.0.0.1:8@evil.example", 403), ("127.0.0.1:x", 403), ("", 403),
    ("8.8.8.8", 403), ("localhost.", 403),
]  # fmt: skip


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_a_foreign_host_is_refused(service: Client, host: str, status: int) -> None:
    assert service.ask("GET", "/model", headers={"Host": host}).status == status
    assert service.ask("GET", "/health", headers={"Host": host}).status == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:80", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:81", 403),
        ("", 403),
    ],
)
def test_a_page_of_another_origin_is_refused(service: Client, origin: str, status: int) -> None:
    answer = service.ask("GET", "/model", headers={"Host": "127.0.0.1:80", "Origin": origin})
    assert answer.status == status
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_a_request_with_two_hosts_or_none_is_refused(service: Client) -> None:
    two = service.raw(b"GET /model HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    none = service.raw(b"GET /model HTTP/1.0\r\n\r\n")
    assert two.split()[1] in (b"400", b"403")
    assert none.split()[1] == b"403"


def test_the_token_is_compared_as_a_whole_and_needed_by_all_that_has_data(
    guarded: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    compare = guard.hmac.compare_digest
    monkeypatch.setattr(guard.hmac, "compare_digest", lambda *pair: compared.append(pair) or compare(*pair))
    for path in ("/model", "/metrics"):
        for word in ("", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \xff"):
            assert guarded.ask("GET", path, headers={"Authorization": word} if word else {}).status == 401
        assert guarded.ask("GET", path, headers={"Authorization": f"bearer {TOKEN}"}).status == 200
    for path in ("/forecast", "/table"):
        assert guarded.ask("POST", path, b"x").status == 401
    for path in ("/", "/health", "/docs", "/page.js", "/openapi.json"):
        assert guarded.ask("GET", path).status == 200
    assert len(compared) == 14  # of each request that needs it
    named = {
        "Host": "forecast.example.org",
        "Authorization": f"Bearer {TOKEN}",
        "Origin": "https://forecast.example.org",
    }
    assert guarded.ask("GET", "/model", headers=named).status == 200


def test_every_answer_forbids_scripts_of_others(service: Client) -> None:
    for path in ("/", "/model", "/nothing"):
        headers = service.ask("GET", path).headers
        assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_body_above_the_limit_is_refused_before_it_is_read(service: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_MAX_TABLE_MIB", "1")
    start = b"POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    assert service.raw(start + b"Content-Length: 999999999\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert service.raw(start + b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n")[9:12] in (b"400", b"413")
    piece = b"8000\r\n" + b"1" * 0x8000 + b"\r\n"
    streamed = service.raw(start + b"Transfer-Encoding: chunked\r\n\r\n" + 3 * piece)
    assert streamed.startswith(b"HTTP/1.1 413"), streamed[:200]
    assert b"connection: close" in streamed


def test_a_slow_client_is_given_up_and_blocks_no_other(
    service: Client, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 2.0)
    monkeypatch.setattr(guard, "HEAD_SECONDS", 2.0)
    slow = b"POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 100\r\n\r\ndate"
    with ThreadPoolExecutor(10) as clients:
        waiting = [clients.submit(service.raw, slow) for _ in range(8)]
        silent = clients.submit(service.raw, b"POST /fore")
        assert service.post("/forecast", tiny_run.source.read_bytes(), CSV).status == 200
        assert {future.result()[9:12] for future in waiting} == {b"408"}
        assert silent.result() == b""


def test_more_requests_than_the_limit_are_refused_at_once(service: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_OPEN", 1)
    head = b"POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port)) as first:
        first.sendall(head)
        time.sleep(0.2)
        answer = service.ask("POST", "/forecast", b"x")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert service.ask("GET", "/health").status == 200
        first.sendall(b"date,x\n1,")
        assert first.recv(2**16)[9:12] == b"422"
    assert service.ask("GET", "/model").status == 200


def test_an_answer_that_takes_too_long_is_given_up(service: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from forecast.serve import app

    monkeypatch.setattr(app, "WORK_SECONDS", 0.3)
    monkeypatch.setattr(Service, "named", lambda *_: time.sleep(1))
    answer = service.ask("POST", "/forecast", b"x")
    assert answer.status == 504
    assert "no answer within 0.3 s" in answer.error


def test_a_long_forecast_without_training_ends_at_the_limit_and_blocks_no_other_model(
    service: Client, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecast.serve import app, untrained

    begun, over = threading.Event(), threading.Event()

    def long(*_: object) -> None:
        begun.set()
        over.wait(60)
        raise InputError("over")

    monkeypatch.setattr(untrained, "forecast_without_training", long)
    monkeypatch.setattr(app, "WORK_SECONDS", 5.0)
    with ThreadPoolExecutor(1) as other:
        days = "date,load\n" + "".join(f"2020-01-{day:02d},{day}\n" for day in range(1, 31))
        waiting = other.submit(service.post, "/forecast?model=untrained", days, CSV)
        assert begun.wait(60)
        assert service.post("/forecast", tiny_run.source.read_bytes(), CSV).status == 200
        assert not waiting.done()
        assert waiting.result().status == 504
        over.set()


def test_a_request_whose_client_has_left_is_not_begun(service: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[float] = []

    def busy(*_: object) -> None:
        begun.append(time.monotonic())
        time.sleep(1)
        raise guard.Refused(404, "no model")

    monkeypatch.setattr(Service, "named", busy)
    request = b"POST /table HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 1\r\n\r\nx"
    with ThreadPoolExecutor(1) as other:
        first = other.submit(service.ask, "POST", "/table", b"x")
        while not begun:
            time.sleep(0.01)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", service.port)) as connection:
                connection.sendall(request)
                time.sleep(0.1)
        assert first.result().status == 404
    service.ask("POST", "/table", b"x")
    assert len(begun) == 2


def test_without_a_token_only_this_machine_is_served(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORECAST_TOKEN", raising=False)
    for host in ("0.0.0.0", "::", "192.168.0.1", "myhost"):
        with pytest.raises(InputError, match=r"other machines may reach it: set FORECAST_TOKEN"):
            serve([str(tiny_run.path)], host, 0)
    monkeypatch.setenv("FORECAST_TOKEN", "short")
    assert main(["--run", str(tiny_run.path)]) == 2
    assert "has 5 characters: use 16 or more" in capsys.readouterr().err


@pytest.mark.parametrize("token", ["schlüssel für alle", "a token of many characters\n", " a token of characters"])
def test_a_token_that_no_request_can_send_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORECAST_TOKEN", token)
    with pytest.raises(InputError, match="FORECAST_TOKEN: a header cannot hold it"):
        serve(["pretrained"], "127.0.0.1", -1)


@pytest.mark.parametrize("name", ["https://forecast.example.org", "forecast.example.org:8000", "a/b", "*", ""])
def test_a_name_that_no_host_header_has_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORECAST_TOKEN", raising=False)
    with pytest.raises(InputError, match="is no name of a machine: give it without address, port or path"):
        serve(["pretrained"], "127.0.0.1", -1, ["::1", "forecast.example.org", name])


def test_the_command_serves_the_network_of_the_package_beside_a_run(tiny_run: TinyRun) -> None:
    from forecast.serve.untrained import load

    models = [load(name, run) for name, run in (("hours", str(tiny_run.path)), ("any", "pretrained"))]
    with serving(models) as client:
        assert client.ask("GET", "/model?model=any").content["models"] == ["hours", "any"]
        assert client.ask("GET", "/model").content["horizon"] == 12
    assert [each.words[:9] for each in models] == ["load, oil", "each colu"]


def test_a_port_in_use_and_a_name_given_twice_are_one_line(tiny_run: TinyRun, service: Client) -> None:
    with pytest.raises(InputError, match="in use: choose another --host or --port"):
        serve([str(tiny_run.path)], "127.0.0.1", service.port)
    with pytest.raises(InputError, match="the name 'a' is taken"):
        serve([f"a={tiny_run.path}", f"a={tiny_run.path}"], "127.0.0.1", 0)
