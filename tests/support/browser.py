"""A page in headless Chromium: what it shows, what it asks for, a picture of it."""

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
"""The initiator of a request that no page caused: the browser's own, for updates, the time or an account."""

PATIENCE = 60_000
"""Milliseconds of its own clock that a page is given: that clock runs ahead while the page waits for nothing."""

REQUIRED = "FORECAST_REQUIRE_BROWSER"
"""Environment variable that makes a missing browser an error; `.ci/run` sets it."""

TRIES = 4
"""On a busy machine that clock can run out before what is drawn late has been drawn."""


@dataclass(frozen=True)
class Opened:
    """The document after its scripts ran, the addresses that it asked for, what its own policy blocked.

    The network log names the initiator of each request, so that requests of the browser itself do not count.
    """

    document: str
    requests: list[str]
    blocked: list[str]


def open_page(path: Path, folder: Path, *options: str) -> Opened:
    """Open a file, cut off from the network, with `folder` for what the browser keeps; skip without Chromium."""
    log = folder / "net.json"
    ended = _show(path.as_uri(), folder, ALONE, f"--log-net-log={log}", "--enable-logging=stderr", *options)
    events = (event.get("params", {}) for event in json.loads(log.read_text())["events"])
    asked = {event["url"] for event in events if event.get("initiator", THE_BROWSER) != THE_BROWSER}
    return Opened(
        document=ended.stdout,
        requests=sorted(asked),
        blocked=[line for line in ended.stderr.splitlines() if "Content Security Policy" in line],
    )


def look(address: str, folder: Path, wanted: Sequence[str]) -> tuple[str, Path]:
    """Return a page's elements once its scripts have run, and a picture of it; skip without Chromium.

    It is looked at again where some of the `wanted` words are not among its elements.
    """
    picture, elements = folder / "page.png", ""
    options = [f"--virtual-time-budget={PATIENCE}", "--window-size=1400,1600", f"--screenshot={picture}"]
    for _ in range(TRIES):
        elements = _show(address, folder, *options).stdout
        if all(words in elements for words in wanted):
            break
    return elements, picture


def _show(address: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None and os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and there is no Chromium here")
    if program is None:
        pytest.skip("there is no Chromium here")
    command = [program, *QUIET, f"--user-data-dir={folder / 'profile'}", *options, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
