"""A page as headless Chromium shows it."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--window-size=1400,1600"),
]
PATIENCE = 60_000
"""Milliseconds of its own clock that a page is given: that clock runs ahead while the page waits for nothing."""

TRIES = 4
"""On a busy machine that clock can run out before what is drawn late has been drawn."""


def look(address: str, folder: Path, wanted: Sequence[str]) -> tuple[str, Path]:
    """Give the page's elements once its scripts have run, and a picture of it; skips where there is no Chromium.

    It is looked at again where some of the `wanted` words are not among its elements.
    """
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    picture, elements = folder / "page.png", ""
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", f"--virtual-time-budget={PATIENCE}"]
    asked = [*command, "--dump-dom", f"--screenshot={picture}", address]
    for _ in range(TRIES):
        elements = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=True).stdout
        if all(words in elements for words in wanted):
            break
    return elements, picture
