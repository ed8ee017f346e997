"""Forecasts from files with gaps and duplicate times, repaired as in training."""

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.common.errors import InputError
from forecast.evaluation.adaptive import RowErrors
from forecast.model.original_units import Context
from forecast.predict import answer
from forecast.predict.ensemble import load
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.forecasts import dated, forecast, make_adaptive
from tests.support.pictures import drawing
from tests.support.small import CONTEXT, HORIZON, hourly, quick, write

PARTS = ("train", "validation", "test")


LAST_GAP = [*range(660, 664), 690]


def holed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with missing rows, one row twice, and an empty cell in the last two days."""
    copy = table.copy()
    copy.loc[680, "oil"] = np.nan
    return pd.concat([copy.drop(index=[*range(100, 110), *LAST_GAP]), copy.loc[[670]]])


@pytest.fixture(scope="module", params=[pytest.param("ffill", marks=pytest.mark.exhaustive), "interpolate", "mask"])
def repaired(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """Train on a file with gaps under each policy."""
    folder = tmp_path_factory.mktemp("repaired")
    table = holed(hourly())
    source = write(folder / "hours.csv", table)
    words = ["data=csv", f"data.path={source}", "data.past_covariates=[air]", "data.duplicates=mean"]
    words += [f"data.missing={request.param}", "model.linear_path=zero", "training.max_steps=12"]
    config = quick(folder / "outputs", *words)
    with drawing() if request.param == "mask" else nullcontext():
        run, result = train(config)
    return TinyRun(run.path, source, table, config, result)


def test_a_run_on_a_file_with_gaps_reports_repairs_and_excluded_windows(repaired: TinyRun) -> None:
    missing = repaired.config["data"]["missing"]
    data = repaired.result["data"]
    assert data["rows"] == 700
    assert data["policies"] == {"duplicates": "mean", "missing": missing}
    left_out = {"train": 10, "validation": 0, "test": 5} if missing == "interpolate" else dict.fromkeys(PARTS, 0)
    assert data["windows_left_out"] == left_out
    whole = {"train": 430, "validation": 60, "test": 129}
    assert data["windows"] == {part: whole[part] - left_out[part] for part in PARTS}
    assert data["notes"][1:3] == [
        "1 time had several rows: 2 rows were merged into 1 (data.duplicates=mean)",
        f"15 missing rows and 1 row with empty cells filled (data.missing={missing}): 46 of 2,100 values",
    ]
    assert len(data["notes"]) == (4 if missing == "interpolate" else 3)
    for part in PARTS[1:]:
        assert np.isfinite(repaired.result[part]["scaled"]["mse"])
    errors = pd.read_parquet(repaired.path / "errors.parquet")
    assert len(errors) == data["windows"]["validation"] + data["windows"]["test"]


def test_the_input_is_repaired_by_the_policies_of_the_run(
    repaired: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forecast(repaired.path, repaired.source, tmp_path / "next.csv") == 0
    out = capsys.readouterr().out
    assert f"filled (data.missing={repaired.config['data']['missing']}): 46 of 2,100 values" in out
    assert "2 rows were merged into 1 (data.duplicates=mean)" in out
    assert "ends in a gap" not in out
    assert dated(tmp_path / "next.csv").index[0] == pd.Timestamp(hourly()["date"].iloc[-1]) + pd.Timedelta(hours=1)


def test_the_context_is_repaired_by_the_policy(repaired: TinyRun) -> None:
    """Compare with a table that is filled by hand; under a mask the filled values do not matter."""
    missing, forecaster = repaired.config["data"]["missing"], load(repaired.path)
    series = forecaster.read(repaired.source)
    forecasts = forecaster.predict(repaired.table)
    whole = pd.concat([repaired.table.drop_duplicates("date"), hourly().loc[[*range(100, 110), *LAST_GAP]]])
    whole = whole.set_index("date").sort_index()
    seen = hourly().set_index("date").assign(load=True, oil=True, air=True).astype(bool)
    seen.iloc[[*range(100, 110), *LAST_GAP]] = False
    seen.iloc[680, 1] = False
    holes = whole.where(seen)
    filled = holes.interpolate(method="time") if missing == "interpolate" else holes.ffill()
    assert not forecaster.predict(hourly()).equals(forecasts)
    if missing == "mask":
        unmasked = forecaster.predict(filled)
        assert not unmasked.equals(forecasts)
        other = series.frame.where(seen.to_numpy(), 1e3)  # masked values do not matter
        same = forecaster.predict(replace(series, frame=other))
        np.testing.assert_allclose(same, forecasts, rtol=1e-4)
    else:
        np.testing.assert_allclose(forecaster.predict(filled), forecasts, rtol=1e-6)


def test_predict_repeats_the_forecast_of_the_last_test_window_with_gaps(repaired: TinyRun, tmp_path: Path) -> None:
    origin = hourly()["date"].iloc[-HORIZON]
    source = write(tmp_path / "before.csv", repaired.table[repaired.table["date"] < origin])
    assert forecast(repaired.path, source, tmp_path / "again.csv") == 0
    again, stored = dated(tmp_path / "again.csv"), dated(repaired.path / "forecast.csv")
    assert again.index.equals(stored.index)
    assert float(((again - stored) / hourly()[["load", "oil"]].std()).abs().max().max()) < 1e-5


def test_earlier_forecasts_in_one_batch_read_what_each_would_read_alone(repaired: TinyRun) -> None:
    forecaster = load(repaired.path)
    series = forecaster.read(repaired.source)
    origins = np.array([600, 655, 688, 699])
    future_known = forecaster.context(series)[0].future_known
    together = forecaster.earlier(series, origins, future_known)
    for place, origin in enumerate(origins[:3]):
        alone, _ = forecaster.context(series, int(origin))
        for name, own in zip(Context._fields, alone, strict=True):
            batched = getattr(together, name)
            assert (own is None) == (batched is None)
            assert own is None or torch.equal(batched[place], own[0])
    torch.testing.assert_close(together.future_known[3, 1:], future_known[0, : HORIZON - 1])


def test_an_earlier_forecast_does_not_begin_in_a_gap_whose_fill_reads_the_value_after_it(repaired: TinyRun) -> None:
    forecaster = load(repaired.path)
    series = forecaster.read(repaired.source)
    begins_in_gap = {row + 1 for row in LAST_GAP} | {681}
    origins = answer._earlier_origins(forecaster, series).tolist()
    if repaired.config["data"]["missing"] == "interpolate":
        assert not begins_in_gap & set(origins)
    else:
        assert begins_in_gap <= set(origins)


def test_earlier_forecasts_are_scored_where_values_were_measured(
    repaired: TinyRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Any] = []
    add = RowErrors.add

    def noted(errors: RowErrors, *arguments: Any) -> None:
        given.append(arguments)
        add(errors, *arguments)

    monkeypatch.setattr(RowErrors, "add", noted)
    copied = make_adaptive(Path(shutil.copytree(repaired.path, tmp_path / "copied")))
    forecaster, whole, targets = load(copied), hourly(), ["load", "oil"]
    forecaster.predict(repaired.table, levels=[80], adaptive=True)
    ((origins, residuals, spread),) = given
    rows = origins.numpy()[:, None] + np.arange(HORIZON)
    measured = np.ones((700 + HORIZON, 2), dtype=bool)
    measured[[*range(100, 110), *LAST_GAP]] = measured[680, 1] = False
    measured[700:] = False
    np.testing.assert_array_equal(residuals.isfinite().numpy(), measured[rows])
    for origin in (620, 655, 688):  # the last one has a gap in its look-back
        place = origins.tolist().index(origin)
        before = repaired.table[repaired.table["date"] < whole["date"][origin]]
        truth = whole[targets].to_numpy()[origin : origin + HORIZON]
        expected = np.where(residuals[place].isfinite(), truth - forecaster.predict(before)[targets], np.nan)
        np.testing.assert_allclose(residuals[place], expected, rtol=1e-3, atol=1e-6)
    mean, scale = forecaster.contract.scaler.mean[:2], forecaster.target_scale
    for origin in (620, 655):
        look_back = (whole[targets].to_numpy()[origin - CONTEXT : origin] - mean) / scale.numpy()
        expected = np.sqrt(look_back.var(0) + 0.2**2) * scale.numpy()
        np.testing.assert_allclose(spread[origins.tolist().index(origin), 0], expected, rtol=1e-5)


def test_an_input_that_ends_in_a_gap_is_forecast_with_a_note(
    repaired: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = hourly()
    table.loc[697:, "oil"] = table.loc[699:, "air"] = np.nan
    source = write(tmp_path / "open.csv", table)
    assert forecast(repaired.path, source, tmp_path / "next.csv") == 0
    masked = repaired.config["data"]["missing"] == "mask"
    taken = "the encoder-decoder uses the window's mean there, the linear path the last value before"
    repair = taken if masked else "filled with the last value before"
    (note,) = [line for line in capsys.readouterr().out.splitlines() if "ends in a gap" in line]
    text = f"'oil' has no value in the last 3 rows (1 more end in a gap): {repair}"
    assert note == f"{source}: ends in a gap: {text}"
    expected = load(repaired.path).predict(table.ffill())
    forecasts = dated(tmp_path / "next.csv")
    assert forecasts.index.equals(expected.index)
    if repaired.config["data"]["missing"] != "mask":
        pd.testing.assert_frame_equal(forecasts, expected, check_freq=False, check_exact=True)


def test_a_context_of_gaps_only_is_refused(repaired: TinyRun) -> None:
    """The model would have no information, whether it sees the filled values or not."""
    table = hourly()
    table.loc[700 - CONTEXT :, ["load", "air"]] = np.nan
    with pytest.raises(InputError, match=f"'load' has no value in the last {CONTEXT} rows"):
        load(repaired.path).predict(table)
    table.loc[700 - CONTEXT, "load"] = 1.0
    with pytest.warns(UserWarning, match="^ends in a gap: 'air' has no value in the last"):
        assert np.isfinite(load(repaired.path).predict(table).to_numpy()).all()


def test_only_a_masked_look_back_may_begin_before_the_first_value(repaired: TinyRun) -> None:
    forecaster, table = load(repaired.path), hourly().iloc[700 - CONTEXT :].reset_index(drop=True)
    table.loc[:9, ["load", "oil", "air"]] = np.nan
    if repaired.config["data"]["missing"] != "mask":
        for given in (table, table.loc[10:]):
            with pytest.raises(InputError, match=f"it has {CONTEXT - 10} rows.*: give at least {CONTEXT} rows"):
                forecaster.predict(given)
        return
    expected = forecaster.predict(table)
    pd.testing.assert_frame_equal(forecaster.predict(table.loc[10:]), expected, check_exact=True)
    series = forecaster.read(write(repaired.path.parent / "late.csv", table))
    other = series.frame.where(np.asarray(series.observed), 1e3)  # the linear path reads the window's mean there
    np.testing.assert_allclose(forecaster.predict(replace(series, frame=other)), expected, rtol=1e-4)


@pytest.mark.parametrize("step", ["D", "30min", "2h", "3h"])
def test_another_frequency_is_not_a_gap(
    step: str, repaired: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = hourly(200).assign(date=pd.date_range("2016-07-01", periods=200, freq=step))
    assert forecast(repaired.path, write(tmp_path / "other.csv", rows), tmp_path / "next.csv") == 2
    assert f"its frequency is {step}, the model was trained at h" in capsys.readouterr().err


def test_an_input_of_mostly_gaps_has_the_frequency_of_training(repaired: TinyRun) -> None:
    places = np.cumsum(np.tile([1, 2, 3, 1, 2], 40))  # no step has a majority
    table = hourly(500).iloc[places[places < 130]]
    assert load(repaired.path).predict(table).index[0] == table["date"].iloc[-1] + pd.Timedelta(hours=1)
