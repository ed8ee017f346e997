"""The record of stores that training did not have, and the table of its page."""

import pandas as pd

from benchmarks.studies.cold_start import RECORD
from tests.support.examples import ROOT

ROWS = {
    "all stores": "model that was trained on them",
    "without them": "model that never saw them, with their static columns and an unknown id",
    "seasonal naive": "seasonal naive",
}


def test_the_table_of_the_page_is_the_record() -> None:
    rows = pd.read_csv(ROOT / RECORD).set_index("row")
    page = (ROOT / "docs/measurements/many-series.md").read_text(encoding="utf-8")
    for name, words in ROWS.items():
        assert f"| {words} | {rows.loc[name, 'SQL']:.3f} | {rows.loc[name, 'MASE']:.3f} |" in page
    every = rows.loc["all stores, all forecast"]
    for share in ("covered_80", "covered_80_open", "stores_60_to_95"):
        assert f"{100 * every[share]:.0f} %" in page
