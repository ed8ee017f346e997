"""A service in a thread of the test process, and requests to it."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from forecast.serve.__main__ import server_of
from forecast.serve.app import Model, build
from forecast.serve.guard import LOOPBACK

CSV = {"Content-Type": "text/csv"}
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answered:
    """The answer to a request."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def content(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The message of a refusal."""
        return str(self.content["error"])


@dataclass(frozen=True)
class Client:
    """A service at a port of this machine."""

    port: int

    def ask(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] = CSV
    ) -> Answered:
        """Send a request and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return Answered(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any, headers: Mapping[str, str] = JSON) -> Answered:
        """Send a body, as JSON if it is neither bytes nor text."""
        return self.ask("POST", path, body if isinstance(body, bytes | str) else json.dumps(body), headers)

    def raw(self, content: bytes) -> bytes:
        """Send bytes and return what comes back until the connection closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(content)
            got = b""
            try:
                while piece := connection.recv(2**16):
                    got += piece
            except (TimeoutError, ConnectionResetError):
                pass
            return got


@contextmanager
def serving(models: Sequence[Model], token: str | None = None, hosts: Sequence[str] = LOOPBACK) -> Iterator[Client]:
    """Serve models at a free port until the block ends."""
    server = server_of(build(models, hosts, token))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield Client(listener.getsockname()[1])
        server.should_exit = True
        thread.join(20)
        server.force_exit = True
        thread.join(20)
        assert not thread.is_alive()
