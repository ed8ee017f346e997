from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.evaluation import evaluate as module
from forecast.evaluation.evaluate import errors_by_part, evaluate
from tests.evaluation.test_evaluate import mean_of_context
from tests.support.examples import make_windows

ROWS, SCALE = 150, 4.0


def data_of(frequency: str) -> Any:
    series = SimpleNamespace(frequency=frequency)
    index = pd.date_range("2020-01-01 05:00", periods=ROWS, freq=frequency)
    source = SimpleNamespace(series=series, targets=["load", "oil"])
    return SimpleNamespace(index=index, source=source, target_scale=np.array([SCALE, 1.0]))


@pytest.mark.parametrize("frequency", ["h", "D"])
@pytest.mark.parametrize("kept", [2**25, 100])
def test_errors_by_calendar_part_equal_a_grouped_table(
    frequency: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RESIDUALS", kept)
    monkeypatch.setattr(module, "LEAST_KEPT", 1)
    data = data_of(frequency)
    observed = torch.rand(ROWS, 3, generator=torch.Generator().manual_seed(0)) > 0.2
    windows = make_windows(ROWS, observed=observed)
    evaluation = evaluate(mean_of_context, windows, 16, keep_residuals=True)
    assert evaluation.residuals is not None
    assert (len(evaluation.residuals) < len(windows)) == (kept == 100)
    errors = errors_by_part(evaluation, data)
    assert errors is not None

    rows = []
    for position in module.residual_places(len(windows), 3, 2).tolist():
        batch = windows.batch(torch.tensor([position]))
        error = SCALE * (batch.future - mean_of_context(batch))[0, :, 0]
        for ahead in range(3):
            time = data.index[int(batch.origin) + ahead]
            if observed[int(batch.origin) + ahead, 0]:
                rows.append((time.hour if frequency == "h" else time.day_of_week, float(error[ahead])))
    table = pd.DataFrame(rows, columns=["part", "error"])
    size = 24 if frequency == "h" else 7
    mae = table["error"].abs().groupby(table["part"]).mean().reindex(range(size))
    bias = table.groupby("part")["error"].mean().reindex(range(size))
    np.testing.assert_allclose(errors.mae, mae, rtol=1e-5)
    np.testing.assert_allclose(errors.bias, bias, rtol=1e-4, atol=1e-6)
    assert errors.series == "load"


def test_hours_that_were_never_forecast_have_no_error() -> None:
    evaluation = evaluate(mean_of_context, make_windows(ROWS), 16, keep_residuals=True)
    errors = errors_by_part(evaluation, data_of("6h"))
    assert errors is not None
    assert np.flatnonzero(np.isfinite(errors.mae)).tolist() == [5, 11, 17, 23]
    assert errors_by_part(evaluation, data_of("YS-JAN")) is None
