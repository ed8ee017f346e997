from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.data.datamodule import ForecastData
from forecast.data.settings import DataSettings
from forecast.data.sources import Source
from forecast.data.windows import Batch, Windows
from forecast.evaluation.baselines import SeasonalNaive, last_value
from forecast.evaluation.evaluate import spread_of
from forecast.evaluation.ridge import fit_ridge
from forecast.predict.ensemble import load
from forecast.runs.run import Run
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.series import Series
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.reading import series_from_frame
from tests.support.small import CONTEXT, HORIZON, changed, hourly, quick, write

ROWS = 700
FIRST_VALIDATION, FIRST_TEST = 489, 560


def prepared(table: pd.DataFrame, context_length: int = CONTEXT) -> ForecastData:
    """Return the data as training sees them, without the reader, which would refuse NaN."""
    frame = table.set_index("date")
    frame.index = pd.DatetimeIndex(frame.index, name="date")
    return as_data(Series(frame, "h"), context_length)


def as_data(series: Series, context_length: int) -> ForecastData:
    data = ForecastData(
        Source(series, Roles(["load", "oil"], ["air"])),
        {"train": 0.7, "validation": 0.1, "test": 0.2},
        context_length=context_length,
        horizon=HORIZON,
        batch_size=16,
        evaluation_batch_size=64,
        seed=1,
    )
    data.total_steps = 30
    return data


def changed_from(table: pd.DataFrame, first: int, value: float) -> pd.DataFrame:
    """Return the table with all values from row `first` on replaced."""
    copy = table.copy()
    copy.loc[first:, ["load", "oil", "air"]] = value
    return copy


def same(one: Batch, other: Batch) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a is b if a is None or b is None else torch.equal(a, b) for a, b in pairs)


def before(windows: Windows, row: int) -> Windows:
    """Return the windows whose origin is at most `row`, so that no context includes it."""
    return replace(windows, starts=windows.starts[windows.starts + windows.context_length <= row])


@pytest.fixture(scope="module")
def clean() -> ForecastData:
    return prepared(hourly())


@pytest.mark.parametrize("value", [np.nan, 1e13])
class TestRowsAfterTheLastValidationTarget:
    """Changed rows after the last validation target affect nothing that is fitted or selected."""

    @pytest.fixture
    def bad(self, value: float) -> ForecastData:
        return prepared(changed_from(hourly(), FIRST_TEST, value))

    def test_change_no_scaler_value(self, clean: ForecastData, bad: ForecastData) -> None:
        assert bad.scaler.to_dict() == clean.scaler.to_dict()

    def test_change_no_calendar_feature(self, clean: ForecastData, bad: ForecastData) -> None:
        assert bad.cycles == clean.cycles
        assert torch.equal(bad.parts["test"].known, clean.parts["test"].known)

    def test_change_no_training_batch(self, clean: ForecastData, bad: ForecastData) -> None:
        batches = list(zip(clean.train_dataloader(), bad.train_dataloader(), strict=True))
        assert len(batches) == 30
        assert all(same(one, other) for one, other in batches)

    def test_change_no_validation_batch(self, clean: ForecastData, bad: ForecastData) -> None:
        batches = list(zip(clean.val_dataloader(), bad.val_dataloader(), strict=True))
        assert sum(len(one.origin) for one, _ in batches) == len(clean.parts["validation"]) == 60
        assert all(same(one, other) for one, other in batches)

    def test_change_no_weight_and_no_penalty_of_the_ridge(self, clean: ForecastData, bad: ForecastData) -> None:
        one, other = (fit_ridge(data.parts["train"], data.parts["validation"]) for data in (clean, bad))
        assert torch.equal(one.weight, other.weight)
        assert one.penalty == other.penalty


@pytest.mark.parametrize("value", [np.nan, 1e13])
def test_rows_from_the_origin_on_change_no_forecast(tiny_run: TinyRun, clean: ForecastData, value: float) -> None:
    origin = 620
    bad = prepared(changed_from(hourly(), origin, value))
    network = Run.open(tiny_run.path).load_model()
    ridge = fit_ridge(clean.parts["train"], clean.parts["validation"])
    one, other = (next(before(data.parts["test"], origin).batches(512)) for data in (clean, bad))
    assert int(one.origin.max()) == origin
    assert not torch.equal(torch.nan_to_num(one.future), torch.nan_to_num(other.future))
    forecasters = [lambda batch: network(*batch[:4]), ridge, last_value]
    with torch.inference_mode():
        for forecaster in forecasters:
            assert torch.equal(forecaster(one), forecaster(other))
        seasonal = [SeasonalNaive(data.parts["test"], 24)(batch) for data, batch in ((clean, one), (bad, other))]
    assert torch.equal(*seasonal)


@pytest.mark.parametrize("value", [np.nan, 1e13])
def test_rows_from_the_origin_on_change_no_interval(tiny_run: TinyRun, clean: ForecastData, value: float) -> None:
    origin, levels = 620, (0.025, 0.1, 0.9, 0.975)
    bad = prepared(changed_from(hourly(), origin, value))
    calibration, network = load(tiny_run.path).forms.plain, Run.open(tiny_run.path).load_model()
    ends = []
    with torch.inference_mode():
        for data in (clean, bad):
            batch = next(before(data.parts["test"], origin).batches(512))
            ends.append(calibration.quantiles(network(*batch[:4]), spread_of(batch), levels))
    assert ends[0].isfinite().all()
    assert torch.equal(*ends)


def test_the_last_value_before_the_origin_changes_the_forecast(tiny_run: TinyRun, clean: ForecastData) -> None:
    origin = 620
    bad = prepared(hourly().assign(load=lambda table: table["load"] + 50.0 * (table.index == origin - 1)))
    network = Run.open(tiny_run.path).load_model()
    one, other = (next(before(data.parts["test"], origin).batches(512)) for data in (clean, bad))
    with torch.inference_mode():
        differs = (network(*one[:4]) != network(*other[:4])).any(2).any(1)
    assert differs.tolist() == [False] * (len(differs) - 1) + [True]


def test_extra_columns_do_not_change_a_forecast_but_the_last_row_does(tiny_run: TinyRun) -> None:
    forecaster = load(tiny_run.path)
    table = tiny_run.table
    assert forecaster.predict(table.iloc[:600]).equals(forecaster.predict(table.iloc[:600].assign(extra=np.nan)))
    assert not forecaster.predict(table.iloc[:600]).equals(forecaster.predict(table.iloc[:599]))


def test_test_rows_change_neither_weights_nor_selection(tiny_run: TinyRun, tmp_path: Path) -> None:
    table = tiny_run.table.copy()
    table.loc[FIRST_TEST:, ["load", "oil", "air"]] *= -3.0
    source = write(tmp_path / "other.csv", table)
    run, result = train(changed({**tiny_run.config, "output_dir": str(tmp_path)}, data__path=str(source)))
    for name in ("model.safetensors", "calibration.safetensors"):
        assert (run.path / name).read_bytes() == (tiny_run.path / name).read_bytes()
    assert result["validation"] == tiny_run.result["validation"]
    assert result["model"] == tiny_run.result["model"]
    assert result["linear_fit"] == tiny_run.result["linear_fit"]
    assert result["test"]["scaled"] != tiny_run.result["test"]["scaled"]


# --- repairs

FILLS = ["ffill", "interpolate", "mask"]
IN_AND_AROUND_GAPS = [599, 600, 601, 603, 606, 607, 640, 641, 650, 652, 655, 656, 666, 670]


def holed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table without rows 90 to 95, 600 to 605 and 640, with row 620 twice, and with empty cells."""
    copy = table.copy()
    copy.loc[650:654, "air"] = np.nan
    copy.loc[[30, 665], "load"] = np.nan
    return pd.concat([copy.drop(index=[*range(90, 96), *range(600, 606), 640]), copy.loc[[620]]])


def repaired(table: pd.DataFrame, missing: str, context_length: int = CONTEXT) -> ForecastData:
    """Return the data as training sees them, after the repair of gaps."""
    series = series_from_frame(holed(table), policies=Policies("mean", missing))
    assert len(series.frame) == ROWS
    return as_data(series, context_length)


@pytest.mark.parametrize("missing", FILLS)
def test_values_from_the_origin_on_change_no_scored_window_and_no_forecast(missing: str, tiny_run: TinyRun) -> None:
    network = Run.open(tiny_run.path).load_model()
    plain = repaired(hourly(), missing)
    for origin in IN_AND_AROUND_GAPS:
        bad = repaired(changed_from(hourly(), origin, 1e6), missing)
        assert bad.scaler.to_dict() == plain.scaler.to_dict()
        one, other = (next(before(data.parts["test"], origin).batches(512)) for data in (plain, bad))
        assert same(one, other._replace(future=one.future))
        assert not torch.equal(one.future, other.future)
        with torch.inference_mode():
            assert torch.equal(network(*one[:4]), network(*other[:4]))
        seasonal = [SeasonalNaive(data.parts["test"], 24)(batch) for data, batch in ((plain, one), (bad, other))]
        assert torch.equal(*seasonal)


@pytest.mark.parametrize("missing", FILLS)
def test_only_interpolation_over_a_gap_excludes_windows(missing: str) -> None:
    """The excluded windows are those that would fail the test above."""
    plain = repaired(hourly(), missing)
    unfit = set()
    for origin in range(FIRST_TEST + 1, ROWS - HORIZON + 1):
        start = torch.tensor([origin - CONTEXT])
        bad = repaired(changed_from(hourly(), origin, 1e6), missing) if origin in IN_AND_AROUND_GAPS else plain
        one, other = (replace(data.parts["test"], starts=start).batch(torch.tensor([0])) for data in (plain, bad))
        if not torch.equal(one.past, other.past):
            unfit.add(origin)
    scored = set((plain.parts["test"].starts + CONTEXT).tolist())
    left_out = {*range(601, 607), 641, *range(651, 656), 666} if missing == "interpolate" else set()
    assert unfit == left_out & set(IN_AND_AROUND_GAPS)
    assert scored == set(range(FIRST_TEST, ROWS - HORIZON + 1)) - left_out
    assert plain.left_out["test"] == len(left_out)


@pytest.mark.parametrize("missing", FILLS)
@pytest.mark.parametrize("context_length", [1, 24, 200])
def test_the_scored_windows_are_the_same_at_every_look_back(missing: str, context_length: int) -> None:
    origins = [
        repaired(hourly(), missing, length).parts["test"].starts + length for length in (context_length, CONTEXT)
    ]
    assert torch.equal(*origins)


@pytest.mark.parametrize("missing", FILLS)
def test_a_filled_value_is_never_a_target(missing: str) -> None:
    data = repaired(hourly(), missing)
    for part in ("train", "test"):
        for batch in data.parts[part].batches(64):
            assert batch.future_observed is not None
            rows = batch.origin[:, None] + torch.arange(HORIZON)
            absent = torch.isin(rows, torch.tensor([*range(90, 96), *range(600, 606), 640]))
            load = absent | torch.isin(rows, torch.tensor([30, 665]))
            assert torch.equal(~batch.future_observed, torch.stack([load, absent], dim=-1))
            assert (batch.past_observed is not None) == (missing == "mask")


@pytest.mark.parametrize("context_length", [1, 24, CONTEXT, 200])
def test_the_first_test_target_is_the_same_date_at_every_look_back(context_length: int) -> None:
    data = prepared(hourly(), context_length)
    for part, first in (("validation", FIRST_VALIDATION), ("test", FIRST_TEST)):
        windows = data.parts[part]
        assert int(windows.batch(torch.tensor([0])).origin) == first
        assert len(windows) == (FIRST_TEST - FIRST_VALIDATION if part == "validation" else ROWS - FIRST_TEST) - 11


def test_the_three_splits_share_no_target(clean: ForecastData) -> None:
    targets: dict[str, set[int]] = {}
    for part, windows in clean.parts.items():
        rows = [batch.origin[:, None] + torch.arange(HORIZON) for batch in windows.batches(512)]
        targets[part] = set(torch.cat(rows).flatten().tolist())
    assert targets["train"] == set(range(CONTEXT, FIRST_VALIDATION))
    assert targets["validation"] == set(range(FIRST_VALIDATION, FIRST_TEST))
    assert targets["test"] == set(range(FIRST_TEST, ROWS))


def test_the_scaler_is_fitted_on_the_training_rows_only(clean: ForecastData) -> None:
    values = hourly().loc[: FIRST_VALIDATION - 1, ["load", "oil", "air"]].to_numpy()
    np.testing.assert_allclose(clean.scaler.mean, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(clean.scaler.scale, values.std(0), rtol=1e-12)


def test_the_known_future_depends_on_the_dates_only(clean: ForecastData) -> None:
    other = prepared(hourly(seed=5).assign(load=0.0))
    assert torch.equal(clean.parts["test"].known, other.parts["test"].known)
    assert clean.parts["test"].known.shape == (ROWS, 2 * len(clean.cycles))


def test_the_standard_split_of_etth1_has_the_windows_of_the_papers(etth1_path: Path, tmp_path: Path) -> None:
    from forecast.data.sources import load_source

    config = quick(tmp_path, "data=etth1", f"data.path={etth1_path}")
    for context_length in (96, 336):
        data = ForecastData(
            load_source(DataSettings.parse(config["data"])),
            config["data"]["split"],
            context_length=context_length,
            horizon=96,
            batch_size=16,
            evaluation_batch_size=64,
            seed=1,
        )
        assert len(data.parts["test"]) == 2785
        assert str(data.index[data.split.test.start]) == "2017-10-24 00:00:00"
