"""Open a page in headless Chromium: its document and its requests."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars"),
]
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND"
THE_BROWSER = "not an origin"
"""Initiator of the browser's requests for updates, the time or an account, which no page caused."""

REQUIRED = "FORECAST_REQUIRE_BROWSER"
"""Environment variable that makes a missing browser an error; `.ci/run` sets it."""


@dataclass(frozen=True)
class Opened:
    """The document after its scripts ran, the requested addresses, and the requests that its policy blocked.

    Requests that the browser itself initiated do not count.
    """

    document: str
    requests: list[str]
    blocked: list[str]


def open_page(path: Path, folder: Path, *options: str) -> Opened:
    """Open a file without network access, with the browser's files in `folder`; skip without Chromium."""
    log = folder / "net.json"
    ended = _show(path.as_uri(), folder, ALONE, f"--log-net-log={log}", "--enable-logging=stderr", *options)
    events = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    urls = {event["url"] for event in events if event.get("initiator", THE_BROWSER) != THE_BROWSER}
    return Opened(
        document=ended.stdout,
        requests=sorted(urls),
        blocked=[line for line in ended.stderr.splitlines() if "Content Security Policy" in line],
    )


def chromium() -> str:
    """Return the program Chromium; skip without it."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None and os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and there is no Chromium here")
    if program is None:
        pytest.skip("Chromium is not installed")
    return program


def _show(address: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [chromium(), *QUIET, f"--user-data-dir={folder / 'profile'}", *options, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
