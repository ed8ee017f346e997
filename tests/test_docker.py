"""The Dockerfile: hadolint finds nothing, and what it copies is there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_linter_finds_nothing_in_the_dockerfile() -> None:
    program = shutil.which("hadolint", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("hadolint is not installed")
    ended = subprocess.run([program, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_image_copies_files_that_exist_and_that_are_not_ignored() -> None:
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", TEXT, re.MULTILINE) for name in line.split()]
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(kept)
    assert all((ROOT / name).exists() for name in copied)


def test_the_container_runs_without_root_and_is_asked_for_its_health() -> None:
    assert re.search(r"^USER [1-9]\d*$", TEXT, re.MULTILINE)
    assert "HEALTHCHECK" in TEXT
    assert '"--host", "0.0.0.0"' in TEXT
