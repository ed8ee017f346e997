from dataclasses import dataclass
from pathlib import Path

import pytest

from forecast.report.content import Chapter
from forecast.report.html import write_report
from forecast.runs.read import read_runs
from tests.report.made import study


@dataclass(frozen=True)
class Made:
    """A report: its folder, the folder of its runs, and its only chapter."""

    folder: Path
    runs: Path
    chapter: Chapter


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Write the report of a study with known differences."""
    runs, folder = study(tmp_path_factory.mktemp("study") / "runs"), tmp_path_factory.mktemp("report")
    (chapter,) = write_report(folder, "a study", read_runs([runs])).chapters
    return Made(folder, runs, chapter)
