"""What every request passes first: its host, origin and token, limits of number and time, headers, and counters."""

import asyncio
import hmac
import ipaddress
import json
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from forecast.predict.output import program_version

MOST_OPEN = 64
"""Requests that are read, wait or are answered at a time; one more is refused."""

SECONDS = 150.0
"""Most seconds from the first byte of a request's body to the last one of its answer."""

HEAD_SECONDS = 30.0
"""Most seconds from a connection to the end of its first request's headers."""

OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health")
"""Paths without data of the user, which need no token; so do the files of the page."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer."""

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper limits of the times of a forecast, in seconds."""


class Refused(Exception):
    """A request that is answered with an error: its status, and one line."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.content = status, {"error": message, **more}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer; the connection closes if the body was not read."""
        more = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(self.status, {})
        return more | ({"connection": "close"} if self.status in (408, 413) else {})


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Metrics:
    """Counters of one process; only the thread of the event loop changes them."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.times: Counter[int] = Counter()
        self.seconds = 0.0
        self.open = 0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request that has ended; the times are those of forecasts."""
        self.requests[path, status] += 1
        if path == "/forecast":
            self.times[bisect_left(BUCKETS, seconds)] += 1
            self.seconds += seconds

    def text(self) -> str:
        """Return all counters in the text format of Prometheus."""
        lines = ["# TYPE forecast_build_info gauge", f'forecast_build_info{{version="{program_version()}"}} 1']
        lines += ["# TYPE forecast_requests_open gauge", f"forecast_requests_open {self.open}"]
        lines.append("# TYPE forecast_requests_total counter")
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'forecast_requests_total{{path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE forecast_seconds histogram")
        total = 0
        for place, limit in enumerate((*map(str, BUCKETS), "+Inf")):
            total += self.times[place]
            lines.append(f'forecast_seconds_bucket{{le="{limit}"}} {total}')
        lines += [f"forecast_seconds_sum {self.seconds:.6f}", f"forecast_seconds_count {total}"]
        return "\n".join([*lines, ""])


@dataclass(frozen=True)
class Guard:
    """The application behind its checks.

    A web page of somebody else can make the user's browser send requests here, also under a name of its own for this
    address. Its requests have that name as `Host`, or its address as `Origin`, and are refused.

    Attributes
    ----------
    hosts
        Names in `Host` that are accepted, with any port.
    token
        Word that requests must have; None: none.
    assets
        Paths of the files of the page.
    """

    app: ASGIApp
    hosts: Collection[str]
    token: str | None
    assets: Collection[str]
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began = 0, time.monotonic()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        self.metrics.open += 1
        try:
            self._check(scope)
            async with asyncio.timeout(SECONDS):
                await self.app(scope, receive, answer)
        except Refused as refusal:
            await _send(refusal, answer)
        except TimeoutError:
            if status:  # the client does not read: uvicorn closes the connection
                raise
            await _send(Refused(504, f"no answer within {SECONDS:g} s: send fewer rows"), answer)
        finally:
            self.metrics.open -= 1
            is_known = scope["path"] in (*OPEN_PATHS, "/forecast", "/table", "/model", "/metrics")
            self.metrics.add(scope["path"] if is_known else "other", status, time.monotonic() - began)

    def _check(self, scope: Scope) -> None:
        """Raise Refused unless a request may pass."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        host = _only(headers, b"host").lower()
        if _name_of(host) not in self.hosts:
            raise Refused(
                403, f"Host {host[:100]!r}: is none of {', '.join(self.hosts)}: start the service with --allow-host"
            )
        if b"origin" in headers and _only(headers, b"origin").lower() not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, "Origin: the request comes from a page of another site: open the page of this service")
        if self.metrics.open > MOST_OPEN and scope["path"] not in OPEN_PATHS:
            raise Refused(503, f"{MOST_OPEN} requests are open: try again later")
        if self.token is None or scope["path"] in (*OPEN_PATHS, *self.assets):
            return
        scheme, _, word = _only(headers, b"authorization").partition(" ")
        if not hmac.compare_digest(word.strip().encode("latin-1"), self.token.encode()) or scheme.lower() != "bearer":
            raise Refused(401, "the token is missing or wrong: send the header Authorization: Bearer <token>")


def _only(headers: dict[bytes, list[bytes]], name: bytes) -> str:
    """Return the value of a header; empty if it is absent or there are several."""
    values = headers.get(name, [])
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _name_of(host: str) -> str:
    """Return the name in a `Host` without its port, and an IPv6 address without its brackets."""
    name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
    if port and not (port.isascii() and port.isdigit()):
        return ""
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


async def _send(refusal: Refused, send: Send) -> None:
    body = json.dumps(refusal.content).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


class Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, whose time limit for idle connections begins only after a first request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit."""
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._close_without_request)

    def _close_without_request(self) -> None:
        if not self.cycle:
            self.transport.abort()
