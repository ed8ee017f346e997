"""The record of trees beside the model, and its table."""

import pandas as pd

from benchmarks.published.tasks import TASKS
from benchmarks.studies.trees import RECORD, table_of
from tests.support.examples import ROOT


def test_the_table_of_the_page_is_the_record() -> None:
    rows = pd.read_csv(ROOT / RECORD)
    assert set(rows["task"]) == {*TASKS, "rossmann_1D", "victoria"}
    assert table_of(rows) in (ROOT / "docs/measurements/published.md").read_text(encoding="utf-8")
