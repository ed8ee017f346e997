"""A page opened in a headless browser, cut off from the network: what it shows and what it asks for."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
OWN = ".google.com"
"""Hosts that the browser itself asks for on its start."""


@dataclass(frozen=True)
class Opened:
    """The document after its scripts ran, the addresses that it asked for, what its own policy blocked."""

    document: str
    requests: list[str]
    blocked: list[str]


def open_page(path: Path, folder: Path, *options: str) -> Opened:
    """Open a file, with `folder` for what the browser keeps; skip where there is no Chromium."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium here")
    log = folder / "net.json"
    kept = [f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr", *options]
    command = [program, *QUIET, *kept, "--dump-dom", path.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    asked = {event.get("params", {}).get("url") for event in json.loads(log.read_text())["events"]}
    return Opened(
        document=ended.stdout,
        requests=sorted(url for url in asked if url and not (urlsplit(url).hostname or "").endswith(OWN)),
        blocked=[line for line in ended.stderr.splitlines() if "Content Security Policy" in line],
    )
