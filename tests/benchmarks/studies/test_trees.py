"""The record of trees beside recorded models, and its table."""

import pandas as pd

from benchmarks.studies.trees import RECORD
from tests.support.examples import ROOT


def test_the_table_of_the_page_is_the_record() -> None:
    page = (ROOT / "docs/measurements/known-ahead.md").read_text(encoding="utf-8")
    rows = pd.read_csv(ROOT / RECORD)
    assert len(rows) >= 3
    for row in rows.itertuples(index=False):
        errors = " | ".join(f"{value:.4f}" for value in (row.model_mae, row.trees_mae, row.ridge_mae))
        assert f"| `{row.task}` | {row.windows:,} | {errors} |" in page
