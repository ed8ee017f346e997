"""Open a page in headless Chromium: its document, its requests and a screenshot."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
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

TIME_LIMIT = 60_000
"""Virtual milliseconds for a page; the virtual clock skips idle time."""

REQUIRED = "FORECAST_REQUIRE_BROWSER"
"""Environment variable that makes a missing browser an error; `.ci/run` sets it."""

TRIES = 4
"""On a busy machine the virtual time can end before late drawings are done."""


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


def look(address: str, folder: Path, wanted: Sequence[str]) -> tuple[str, Path]:
    """Return a page's elements after its scripts have run, and a screenshot; skip without Chromium.

    Try again while some of the `wanted` words are missing.
    """
    picture, elements = folder / "page.png", ""
    options = [f"--virtual-time-budget={TIME_LIMIT}", "--window-size=1400,1600", f"--screenshot={picture}"]
    for _ in range(TRIES):
        elements = _show(address, folder, *options).stdout
        if all(words in elements for words in wanted):
            break
    return elements, picture


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
