"""The table of baselines."""

from forecast.evaluation.baselines import EVERY
from forecast.runs.summary import NAMES


def test_the_printed_table_has_a_row_for_each_baseline_after_the_model() -> None:
    assert list(NAMES) == ["model", "linear_path", *EVERY]
    assert [NAMES[name] for name in EVERY] == [baseline.title for baseline in EVERY.values()]
