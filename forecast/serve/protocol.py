"""HTTP connections that close if no request arrives in time."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 30.0
"""Most seconds from a connection to the end of its first request's headers."""


class Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, whose time limit for idle connections begins only after a first request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit."""
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._close_without_request)

    def _close_without_request(self) -> None:
        if not self.cycle:
            self.transport.abort()
