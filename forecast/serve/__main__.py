"""Serve trained models over HTTP, with a page: `forecast serve --run latest`."""

import argparse
import os
import re
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish
from forecast.common.errors import InputError

if TYPE_CHECKING:
    import uvicorn

    from forecast.serve.guard import Guard

TOKEN, LEAST_TOKEN = "FORECAST_TOKEN", 16
"""Environment variable with the token, and its smallest number of characters."""

MOST_CONNECTIONS = 512
"""Connections at a time; one more is answered with status 503."""

_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""A name of a machine, or an IPv6 address."""

_NAMED = re.compile(r"([A-Za-z0-9._-]+)=(.+)", re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="forecast serve",
        description="Serve trained models over HTTP: POST /forecast with a table, or open the page. The environment "
        f"variable {TOKEN} sets a token that requests need.",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        metavar="[NAME=]RUN",
        help="folder of a finished run or exported file, as `forecast predict --run` takes it (default: latest), or "
        "pretrained, which needs no training; give it several times, each with a name, for several models",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", default=8000, type=int, help="port to listen at (default: 8000)")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="name by which clients reach the service, such as forecast.example.org behind a proxy",
    )
    options = parser.parse_args(arguments)
    return finish(lambda: serve(options.run or ["latest"], options.host, options.port, options.allow_host))


def serve(runs: Sequence[str], host: str, port: int, allowed: Sequence[str] = ()) -> None:
    """Serve runs until a signal ends the process; raise InputError if an option is refused."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise InputError('the service needs packages that are not installed: pip install -e ".[serve,excel]"')
    from forecast.serve.app import build
    from forecast.serve.guard import LOOPBACK, is_loopback
    from forecast.serve.untrained import load

    token = os.environ.get(TOKEN)
    if token is not None and len(token) < LEAST_TOKEN:
        raise InputError(
            f"{TOKEN}: has {len(token)} characters: use {LEAST_TOKEN} or more, such as openssl rand -hex 16"
        )
    if token is not None and (not token.isascii() or not token.isprintable() or token != token.strip()):
        raise InputError(
            f"{TOKEN}: a header cannot hold it: use ASCII without blanks at its ends, such as openssl rand -hex 16"
        )
    if wrong := [name for name in allowed if not _NAME.fullmatch(name)]:
        raise InputError(
            f"--allow-host {wrong[0]}: is no name of a machine: give it without address, port or path, such as "
            "forecast.example.org"
        )
    if token is None and not is_loopback(host):
        raise InputError(f"--host {host}: other machines may reach it: set {TOKEN}, or leave out --host")
    names = _named(runs)
    with _listener(host, port) as listener:
        models = [load(name, run) for name, run in names.items()]
        hosts = dict.fromkeys([*LOOPBACK, host.lower(), *map(str.lower, allowed)])
        application = build(models, list(hosts), token)
        for each in models:
            print(f"{each.name}: {each.words}")
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{listener.getsockname()[1]} (requests: /docs); Ctrl-C ends it", flush=True)
        server_of(application).run(sockets=[listener])


def server_of(application: "Guard") -> "uvicorn.Server":
    """Return the server of an application, with the limits of its connections."""
    import uvicorn

    from forecast.serve.guard import Protocol

    config = uvicorn.Config(
        application,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=10,
    )
    return uvicorn.Server(config)


def _named(runs: Sequence[str]) -> dict[str, str]:
    """Return the runs by their names; the default name is the folder's, or the word itself."""
    named: dict[str, str] = {}
    for run in runs:
        match = None if Path(run).exists() else _NAMED.fullmatch(run)
        name, path = match.groups() if match else (Path(run).resolve().name if os.sep in run else run, run)
        if name in named:
            raise InputError(f"--run {run}: the name {name!r} is taken: give each run a name of its own, NAME={path}")
        named[name] = path
    return named


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise InputError if the address cannot be used."""
    if not 0 <= port < 2**16:
        raise InputError(f"--port {port}: must be 0 to {2**16 - 1:,}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise InputError(f"{host}:{port}: {reason}: choose another --host or --port") from None


if __name__ == "__main__":
    sys.exit(main())
