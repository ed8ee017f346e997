"""What the service stands: `python -m benchmarks.serve load --run R --input my.csv`, and `hostile` with the same.

`load` sends the table from 50 connections for some minutes, beside clients that send one byte a second, and compares
each answer with the file of `forecast predict`. `hostile` sends 300 malformed and hostile requests, and lists each file
that the service opens after its start.
"""

import argparse
import base64
import gzip
import http.client
import io
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from forecast.common.cli import finish
from forecast.common.files import replacing
from forecast.common.spreadsheet import csv_bytes
from forecast.predict.__main__ import Asked, predict
from forecast.runs.results import commit

FOLDER = Path(__file__).resolve().parent / "records" / "serve"
PATH = "/forecast?levels=80&levels=95"
CSV, JSON, ARROW = "text/csv", "application/json", "application/vnd.apache.arrow.file"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
WATCHED = """
import sys
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        sys.stderr.write(f"opened {arguments[1]} {arguments[0]}\\n")
    elif event in ("os.mkdir", "os.rename", "os.remove", "socket.connect"):
        sys.stderr.write(f"opened {event} {arguments[0]}\\n")
sys.addaudithook(watch)
from forecast.serve.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
"""The service, which lists the files that it opens."""


@contextmanager
def service(run: str, log: Path, *, watched: bool = False) -> Iterator[tuple[int, int]]:
    """Start the service in a process of its own; yield its port and process ID."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = ["-c", WATCHED] if watched else ["-m", "forecast.serve"]
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, *program, "--run", run, "--port", str(port)], stderr=file)
    try:
        while not _is_up(port):
            if process.poll() is not None:
                sys.exit(log.read_text())
            time.sleep(0.5)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _is_up(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(12) == b"HTTP/1.1 200"
    return False


def load(run: str, source: Path, minutes: float, connections: int) -> None:
    """Write a row for each minute: requests, times in seconds, answers that differ, and the memory of the service."""
    body, made, stop = source.read_bytes(), list[tuple[float, float, str]](), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        predict([run], source, Path(folder) / "expected.csv", asked=Asked((80.0, 95.0)))
        expected = (Path(folder) / "expected.csv").read_bytes()
        with service(run, Path(folder) / "log.txt") as (port, pid):
            began = time.monotonic()
            clients = [
                threading.Thread(target=_client, args=(port, body, expected, made, stop, began))
                for _ in range(connections)
            ]
            clients += [threading.Thread(target=_slow_client, args=(port, stop)) for _ in range(5)]
            for client in clients:
                client.start()
            memory = [(0.0, _mebibytes(pid), _processor_seconds(pid))]
            while time.monotonic() - began < 60 * minutes:
                time.sleep(10)
                memory.append((time.monotonic() - began, _mebibytes(pid), _processor_seconds(pid)))
            stop.set()
            for client in clients:
                client.join()
    rows = [_row(made, memory, 60.0 * minute, 60.0) for minute in range(int(minutes))]
    rows.append(_row(made, memory, 0.0, 60.0 * minutes))
    facts = {"connections": connections, "commit": commit(), "bytes": len(body), "command": "load"}
    _write("load.csv", [{**row, **facts} for row in rows])


def _client(
    port: int, body: bytes, expected: bytes, made: list[tuple[float, float, str]], stop: threading.Event, began: float
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    while not stop.is_set():
        start = time.monotonic()
        try:
            connection.request("POST", PATH, body, {"Content-Type": CSV})
            answer = connection.getresponse()
            content = answer.read()
            outcome = "same" if content == expected else f"differs, status {answer.status}"
        except (OSError, http.client.HTTPException) as error:
            outcome = f"error {type(error).__name__}"
            connection.close()
        made.append((time.monotonic() - began, time.monotonic() - start, outcome))


def _slow_client(port: int, stop: threading.Event) -> None:
    head = b"POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 1000\r\n\r\n"
    while not stop.is_set():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(head)
            while not stop.is_set():
                connection.sendall(b"1")
                time.sleep(1)


def _mebibytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _row(
    made: list[tuple[float, float, str]], memory: list[tuple[float, float, float]], start: float, length: float
) -> dict[str, Any]:
    """Return the numbers of a stretch of time."""
    own = [(seconds, outcome) for end, seconds, outcome in made if start <= end < start + length]
    facts = [(size, used) for at, size, used in memory if start <= at <= start + length + 10]
    seconds = sorted(each for each, _ in own) or [float("nan")]
    return {
        "from_second": start,
        "seconds": length,
        "requests": len(own),
        "requests_per_s": round(len(own) / length, 2),
        "median_s": round(statistics.median(seconds), 3),
        "p99_s": round(seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))], 3),
        "not_the_same": sum(outcome != "same" for _, outcome in own),
        "memory_mib": round(max(size for size, _ in facts), 1),
        "processor_s_per_request": round((facts[-1][1] - facts[0][1]) / max(1, len(own)), 4),
    }


def hostile(run: str, source: Path, seed: int = 0) -> None:
    """Write a row for each kind of request with its statuses; fail if one is 500 or opens a file of the machine."""
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with service(run, log, watched=True) as (port, _):
            _status(port, _request(PATH, CSV, source.read_bytes()))  # what is imported at first use
            _status(port, _request(PATH, EXCEL, b"PK\3\4"))
            before = len(log.read_text(errors="replace").splitlines())
            for kind, content in requests(source.read_bytes(), random.Random(seed)):
                found.setdefault(kind, Counter())[_status(port, content)] += 1
            assert _is_up(port)
        lines = [line for line in log.read_text(errors="replace").splitlines()[before:] if line.startswith("opened ")]
    own = (
        tempfile.gettempdir(),
        "/dev/",
        "/proc/",
        "/sys/",
        "/usr/share/zoneinfo/",
        sys.prefix,
        sys.base_prefix,
        "table.",
    )
    files = [line for line in lines if not line.split(" ", 2)[2].startswith(own)]
    rows = [
        {
            "kind": kind,
            "requests": sum(counts.values()),
            "statuses": " ".join(f"{k}:{n}" for k, n in sorted(counts.items())),
        }
        for kind, counts in found.items()
    ]
    rows.append({"kind": "files opened", "requests": len(files), "statuses": " ".join(files)[:500]})
    _write("hostile.csv", [{**row, "seed": seed, "commit": commit()} for row in rows])
    if files or any(" 500:" in f" {row['statuses']}" for row in rows):
        sys.exit("a request has status 500, or opens a file")


def _request(path: str, kind: str, body: bytes, *more: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, "Connection: close", "", ""]).encode("latin-1") + body


def _status(port: int, content: bytes) -> str:
    """Return the status of the answer to bytes, `closed` without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=100) as connection:
        with suppress(OSError):
            connection.sendall(content)
        got = b""
        with suppress(OSError):
            while len(got) < 12 and (piece := connection.recv(2**16)):
                got += piece
    return got[9:12].decode() if len(got) >= 12 else "closed"


def requests(table: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield 300 requests with their kinds."""
    plain = b"POST /forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    for size in ("-1", "0x10", "1e3", "99999999999999999999", "16777217", "+5", "5, 6", "", " 5 ", "nan"):
        yield "length", plain + f"Content-Length: {size}\r\n\r\nx".encode()
    for chunks in (
        b"zz\r\nx\r\n",
        b"ffffffffffffffff\r\nx",
        b"5\r\nab",
        b"-1\r\n\r\n",
        b"0\r\nX: y\r\n\r\n",
        b"1;" + b"a" * 9**5,
    ):
        yield "chunks", plain + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    yield (
        "chunks",
        plain + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /model HTTP/1.1\r\n\r\n",
    )
    for path in _paths():
        yield "path", f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    for header in _headers():
        yield "header", b"GET /model HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\nConnection: close\r\n\r\n"
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "HEAD", "get", "\0", "PRI"):
        yield "method", f"{method} /forecast HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    for body in _json():
        yield "JSON", _request("/forecast", JSON, body)
    for kind, body in _bombs():
        yield "bomb", _request("/forecast", kind, body)
    for packed in ("gzip", "br", "deflate", "zstd", "gzip, gzip", "identity"):
        yield "packed", _request("/forecast", CSV, gzip.compress(b"0" * 10**7), f"Content-Encoding: {packed}")
    kinds = (CSV, JSON, ARROW, EXCEL, "application/vnd.ms-excel", "application/vnd.oasis.opendocument.spreadsheet")
    for _ in range(24):
        yield (
            "noise",
            _request(
                chance.choice(("/forecast", "/table")), chance.choice(kinds[:2] * 4 + kinds), chance.randbytes(2000)
            ),
        )
    for option in (
        "levels=1e999",
        "levels=nan",
        "quantile=2",
        "ids=%00",
        "model=../../x",
        "levels=",
        "beyond_training=x",
        "a" * 9000,
    ):
        yield "option", _request(f"/forecast?{option}", CSV, table)
    count = 300 - 10 - 7 - len(_paths()) - len(_headers()) - 10 - len(_json()) - len(_bombs()) - 6 - 24 - 8
    for _ in range(count):
        yield "table", _request("/forecast", CSV, _mutated(table, chance))


def _paths() -> list[str]:
    names = [
        "../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "page.js/../../served.py",
        "%00",
        "a" * 60000,
    ]
    names += [
        "//etc/passwd",
        "page/../../../run",
        "openapi.json%0d%0aX:y",
        "\\..\\..\\x",
        ".git/config",
        "model?model=" + "x" * 5000,
    ]
    return [f"/{name}" for name in names] + ["http://evil.example/", "*", "", "/\x7f", "?", "/forecast/", "/é"]


def _headers() -> list[bytes]:
    long = [b"X: " + b"a" * size for size in (1000, 20_000, 70_000, 10**6)]
    many = [b"\r\n".join(b"X%d: y" % place for place in range(count)) for count in (100, 1000, 10_000)]
    odd = [
        b"Host: evil.example",
        b"Origin: http://evil.example",
        b"Origin: null",
        b"X\0: y",
        b"X: \0",
        b" folded: y",
        b"no colon",
    ]
    more = [
        b"Authorization: Bearer " + b"\xff" * 500,
        b"Upgrade: websocket\r\nConnection: upgrade",
        b"Upgrade: h2c",
        b"Range: bytes=0-9",
    ]
    proxy = [
        b"X-Forwarded-Host: evil.example",
        b"X-Forwarded-For: 1.2.3.4, " * 500,
        b"Forwarded: host=evil",
        b"Expect: 100-continue",
    ]
    return [
        *long,
        *many,
        *odd,
        *more,
        *proxy,
        b"Accept: " + b"a/b," * 3000,
        b"Content-Type: \xff\xfe",
        b"Cookie: a=" + b"b" * 4000,
    ]


def _json() -> list[bytes]:
    texts = [
        "",
        "null",
        "[]",
        "{}",
        "1",
        '"x"',
        "{",
        "NaN",
        '{"rows": null}',
        '{"rows": {}}',
        '{"rows": [1]}',
        '{"rows": [[]]}',
    ]
    texts += [
        '{"rows": [{}]}',
        '{"rows": [{"": ""}]}',
        '{"rows": [{"date": {}}]}',
        '{"rows": [{"date": NaN}], "levels": [NaN]}',
    ]
    texts += ["[" * 10**6, '{"a":' * 10**5, '{"rows":[' + "{}," * 10**5 + "{}]}", '{"levels": [' + "1," * 10**5 + "1]}"]
    texts += [
        '{"rows":[' + ",".join(f'{{"c{place}":1}}' for place in range(30_000)) + "]}",
        '{"rows": [{"a": 1' + "0" * 10**5 + "}]}",
    ]
    texts += [
        '{"rows": [{"date": "2020-01-01", "date": "x"}]}',
        '{"rows": [{"\\u0000": 1}]}',
        '{"rows": [{"\\udc00": "\\ud800"}]}',
    ]
    texts += [
        '{"model": "../../etc/passwd", "rows": []}',
        '{"file": {"type": "text/csv", "base64": "===="}}',
        '{"file": "/etc/passwd"}',
    ]
    texts += [
        '{"file": {"type": "text/csv", "base64": "L2V0Yy9wYXNzd2Q="}}',
        '{"__class__": "x", "rows": []}',
        '{"rows": [{"date": "9999-99-99"}]}',
    ]
    return [text.encode() for text in texts] + [b"\xff\xfe{}", b'{"rows": [{"a": "\xff"}]}', b"\0" * 1000]


def _bombs() -> list[tuple[str, bytes]]:
    """Return compressed bodies of hundreds of mebibytes, and text with very many or very long cells."""
    book, arrow = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(book, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            for _ in range(600):
                sheet.write(b" " * 2**20)
    pd.DataFrame({"date": ["0" * 1000] * 400_000}).to_feather(arrow, compression="zstd")
    made = [
        (EXCEL, book.getvalue()),
        (ARROW, arrow.getvalue()),
        (ARROW, b"ARROW1\0\0" + b"\xff" * 10_000),
        (ARROW, b"FEA1" * 100),
    ]
    text = [
        b"," * 10**6,
        b"a" * 10**6,
        b'"' * 10**6,
        b"\n" * 10**6,
        b"a,b\n" * 10**6,
        b";,\t|" * 10**5,
        b"date,a\n" + b"2020-01-01,1\n" * 10**5,
    ]
    file = b'{"file": {"type": "%s", "base64": "%s"}}' % (EXCEL.encode(), base64.b64encode(book.getvalue()))
    return [*made, *((CSV, each) for each in text), (JSON, file)]


def _mutated(table: bytes, chance: random.Random) -> bytes:
    """Return a table with bytes flipped, or a piece left out, doubled or replaced."""
    start, end = sorted(chance.sample(range(len(table)), 2))
    piece = chance.choice(
        (b"", table[start:end] * 2, chance.randbytes(20), b"nan", b"1e400", b"=cmd()", b'"', b"\0", b"-", b"\r")
    )
    if chance.random() < 0.3:
        flipped = bytearray(table)
        for place in chance.sample(range(len(table)), 30):
            flipped[place] = chance.randrange(256)
        return bytes(flipped)
    return table[:start] + piece + table[min(end, start + 200) :]


def _write(name: str, rows: Sequence[dict[str, Any]]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with replacing(FOLDER / name) as file:
        file.write(csv_bytes(rows, list(rows[0])))
    print((FOLDER / name).read_text())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("campaign", choices=("load", "hostile"))
    parser.add_argument("--run", default="latest", help="run folder (default: latest)")
    parser.add_argument("--input", type=Path, required=True, help="table that the run forecasts, as CSV")
    parser.add_argument("--minutes", type=float, default=5, help="minutes of load (default: 5)")
    parser.add_argument("--connections", type=int, default=50, help="clients at a time (default: 50)")
    options = parser.parse_args(arguments)
    if options.campaign == "hostile":
        return finish(lambda: hostile(options.run, options.input))
    return finish(lambda: load(options.run, options.input, options.minutes, options.connections))


if __name__ == "__main__":
    sys.exit(main())
