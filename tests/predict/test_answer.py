"""The answer of a model: ends of intervals from the stored scores, the adaptive form, and warnings."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import forecast
from forecast.common.errors import InputError
from forecast.data.scaler import rounded
from forecast.model.original_units import OriginalUnits
from forecast.predict.forecaster import Forecaster
from forecast.tables.repair import Policies
from tests.conftest import TinyRun
from tests.support.contracts import with_contract
from tests.support.forecasts import make_adaptive
from tests.support.small import CONTEXT

TARGETS = ["load", "oil"]


def half_width(run: TinyRun, level: float) -> np.ndarray:
    """Return the half-widths (h, C) of an interval after the run's table, computed from the stored scores alone."""
    scores = load_file(run.path / "calibration.safetensors")["scores"].numpy()[..., 0]
    rank = min(math.ceil(round((len(scores) + 1) * level / 100, 9)), len(scores))
    scaler = Forecaster.load(run.path).scaler
    past = (run.table[TARGETS].to_numpy()[-CONTEXT:] - scaler.mean[:2]) / scaler.scale[:2]
    spread = np.sqrt(past.var(0) + 0.2**2)
    return np.asarray(scores[rank - 1] * spread * scaler.scale[:2])


@pytest.mark.parametrize("level", [50.0, 80.0, 95.0])
def test_ends_are_those_computed_from_the_stored_scores(tiny_run: TinyRun, level: float) -> None:
    table = forecast.load(tiny_run.path).predict(tiny_run.table, levels=[level])
    point, half = forecast.load(tiny_run.path).predict(tiny_run.table).to_numpy(), half_width(tiny_run, level)
    lower, upper = (table[[f"{name}_{side}_{level:g}" for name in TARGETS]].to_numpy() for side in ("lower", "upper"))
    np.testing.assert_allclose(lower, point - half, rtol=1e-6)
    np.testing.assert_allclose(upper, point + half, rtol=1e-6)
    np.testing.assert_array_equal(table[TARGETS].to_numpy(), point)


def widths(table: pd.DataFrame, name: str = "load") -> pd.Series:
    return table[f"{name}_upper_80"] - table[f"{name}_lower_80"]


def test_intervals_widen_after_larger_errors_and_the_forecast_stays(tiny_run: TinyRun, copied: Path) -> None:
    table = tiny_run.table.copy()
    table.loc[640:651, "load"] += 500 * np.random.default_rng(5).normal(size=12)  # before the look-back
    plain = forecast.load(tiny_run.path).predict(table, levels=[80])
    adapted = forecast.load(make_adaptive(copied, power=1.0)).predict(table, levels=[80])
    assert (widths(adapted) > 1.2 * widths(plain)).all()
    np.testing.assert_array_equal(plain[TARGETS], adapted[TARGETS])


def test_past_forecasts_are_made_in_one_batch_of_limited_size(
    copied: Path, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, forward = [], OriginalUnits.forward

    def noted(model: OriginalUnits, past: torch.Tensor, *others: Any) -> torch.Tensor:
        sizes.append(len(past))
        return forward(model, past, *others)

    monkeypatch.setattr(OriginalUnits, "forward", noted)
    forecast.load(make_adaptive(copied)).predict(tiny_run.table, levels=[80])
    assert sizes == [1, 84]  # 84 rows have an error that counts
    monkeypatch.setattr("forecast.predict.answer.MAX_CELLS", 40)
    forecast.load(copied).predict(tiny_run.table, levels=[80])
    assert sizes[2:] == [1, 16]


def test_rows_of_training_say_nothing_of_future_errors(copied: Path, tiny_run: TinyRun) -> None:
    last = tiny_run.table["date"][488]
    assert tiny_run.result["data"]["last_training_row"] == str(last)
    forecaster = forecast.load(make_adaptive(copied))
    with pytest.raises(InputError, match=r"^adaptive: the input has fewer than 12 rows with earlier forecasts"):
        forecaster.predict(tiny_run.table[:500], levels=[80], adaptive=True)
    forecaster.predict(tiny_run.table[:501], levels=[80], adaptive=True)


def test_a_quantile_is_the_end_of_its_interval(copied: Path, tiny_run: TinyRun) -> None:
    forecaster = forecast.load(make_adaptive(copied))
    ends = forecaster.predict(tiny_run.table, levels=[80])
    upper = forecaster.predict(tiny_run.table, quantile=0.9)
    np.testing.assert_allclose(upper["load"], ends["load_upper_80"])


def test_python_warns_of_a_gap_at_the_end_of_the_input(tiny_run: TinyRun) -> None:
    forecaster = with_contract(forecast.load(tiny_run.path), policies=Policies("error", "ffill"))
    table = tiny_run.table.copy()
    table.loc[table.index[-3:], "oil"] = np.nan
    with pytest.warns(UserWarning, match="^ends in a gap: 'oil' has no value in the last 3 rows"):
        forecaster.predict(table)


def test_whole_numbers_are_the_nearest_ones_and_an_interval_holds_those_that_it_held(tiny_run: TinyRun) -> None:
    plain = forecast.load(tiny_run.path)
    assert isinstance(plain, Forecaster)
    whole = with_contract(plain, whole=["load"])
    before, after = (each.predict(tiny_run.table, levels=[80]) for each in (plain, whole))
    columns = ["load", "load_lower_80", "load_upper_80"]
    assert after[columns].dtypes.tolist() == [np.int64] * 3
    assert (after[columns] == before[columns].round()).all(axis=None)
    assert after["oil"].equals(before["oil"])
    assert (after["load_lower_80"] <= np.ceil(before["load_lower_80"])).all()
    assert (after["load_upper_80"] >= np.floor(before["load_upper_80"])).all()


def test_numbers_too_large_for_integers_stay_as_they_are() -> None:
    frame = pd.DataFrame({"a": [1e300], "b": [2.6]})
    assert rounded(frame, {"a": 1, "b": 1}, ["a", "b"]).to_dict("list") == {"a": [1e300], "b": [3]}
