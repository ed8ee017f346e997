"""The record of contributions over a year, and the sentence of its page."""

from pathlib import Path

import pandas as pd

from benchmarks.studies.year_of_contributions import RECORD, draw
from tests.support.examples import ROOT


def test_the_page_says_the_shares_of_the_record(tmp_path: Path) -> None:
    found = pd.read_csv(ROOT / RECORD).set_index("month").drop(columns="commit")
    share = 100 * found["Temperature"] / found.sum(axis=1)
    page = (ROOT / "docs/how-to/explain.md").read_text(encoding="utf-8")
    assert f"{share[1]:.0f} % of the contributions in January" in page
    assert f"{share[11]:.0f} % in November" in page
    assert all(2.4 < share[month] < 3.6 for month in (6, 7, 8))
    draw(found, tmp_path / "shares.png")
    assert (tmp_path / "shares.png").stat().st_size > 5000
