"""The record of refits, and the table of its page."""

import pandas as pd

from benchmarks.studies.refits import STRETCHES, summary
from tests.support.examples import ROOT


def test_the_table_of_the_page_is_the_record() -> None:
    rows = pd.read_csv(ROOT / "benchmarks/records/update/refits.csv")
    assert set(rows["data"]) == set(STRETCHES)
    assert summary(rows) in (ROOT / "docs/how-to/update.md").read_text(encoding="utf-8")
