from dataclasses import replace
from pathlib import Path

import pytest
import torch

from forecast.common.group import ALONE
from forecast.data.datamodule import ForecastData
from forecast.data.sources import Source
from forecast.evaluation.baselines import SeasonalNaive, last_value, training_mean
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.holdout import HeldOutBlock, blocks, held_out
from forecast.evaluation.linear_start import cross_validation
from forecast.evaluation.ridge import LinearMap, fit_ridge, refit
from forecast.evaluation.scoring import limits_of_data, network_forecaster, score
from forecast.runs.settings import Settings
from forecast.tables.roles import Roles
from tests.support.examples import SHARED_DATA, make_windows
from tests.support.prepared import prepare
from tests.support.reading import read_series
from tests.support.small import hourly, quick, write


def test_last_value_repeats_the_row_before_the_origin() -> None:
    windows = make_windows()
    batch = windows.batch(torch.tensor([4, 31]))
    expected = windows.values[[11, 38], :2]
    assert torch.equal(last_value(batch), expected[:, None].expand(2, 3, 2))


@pytest.mark.parametrize(("period", "horizon"), [(6, 3), (6, 6), (6, 12), (6, 15), (7, 3), (4, 11), (1, 5)])
def test_seasonal_naive_repeats_the_newest_value_of_the_same_phase(period: int, horizon: int) -> None:
    windows = make_windows(horizon=horizon)
    batch = windows.batch(torch.tensor([0, 13]))
    forecast = SeasonalNaive(windows, period)(batch)
    for row, origin in enumerate(batch.origin.tolist()):
        for step in range(horizon):
            source = origin + step
            while source >= origin:
                source -= period
            assert torch.equal(forecast[row, step], windows.values[source, :2])


def test_seasonal_naive_reads_before_the_context_and_never_past_the_origin() -> None:
    windows = make_windows(context_length=2, targets=range(30, 60))
    batch = windows.batch(torch.tensor([0]))
    expected = SeasonalNaive(windows, 24)(batch)
    assert torch.equal(expected[0], windows.values[6:9, :2])
    windows.values[30:] = torch.nan
    assert torch.equal(SeasonalNaive(windows, 24)(batch), expected)


def test_the_mean_of_training_is_the_zero_of_the_z_scores() -> None:
    batch = make_windows().batch(torch.tensor([4, 31]))
    assert torch.equal(training_mean(batch), torch.zeros(2, 3, 2))


def test_seasonal_naive_is_perfect_on_a_season_and_last_value_on_a_constant() -> None:
    windows = make_windows(horizon=10)
    windows.values[:] = (torch.arange(60) % 4)[:, None]
    assert evaluate(SeasonalNaive(windows, 4), windows, 16).sums.scaled() == {"mse": 0, "mae": 0, "rmse": 0}
    windows.values[:] = 3
    assert evaluate(last_value, windows, 16).sums.scaled() == {"mse": 0, "mae": 0, "rmse": 0}


def test_baselines_read_filled_values_as_values() -> None:
    windows = make_windows(observed=torch.rand(60, 3) > 0.3)
    batch, whole = windows.batch(torch.tensor([9])), replace(windows, observed=None).batch(torch.tensor([9]))
    for forecaster in (last_value, SeasonalNaive(windows, 6), LinearMap(torch.randn(5, 3), "made")):
        assert torch.equal(forecaster(batch), forecaster(whole))


def test_intervals_are_calibrated_by_the_weights_that_did_not_see_the_windows(tmp_path: Path) -> None:
    prepared = prepare(Settings.parse(quick(tmp_path)))
    network, windows = prepared.network.eval(), prepared.data.parts["validation"]
    parts = blocks(windows)
    assert parts is not None
    own = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    held_out_blocks = [
        HeldOutBlock(part, {name: tensor + 0.1 * (1 + place) for name, tensor in own.items()})
        for place, part in enumerate(parts)
    ]
    expected = held_out(network_forecaster(network), network, windows, held_out_blocks, 64, ALONE)
    assert expected is not None
    baseline = prepared.linear_maps.baseline
    fitted, in_sample = (
        score(network, prepared.data, baseline, held_out_blocks=given)["model"] for given in (held_out_blocks, None)
    )
    assert fitted is not None
    assert in_sample is not None
    assert torch.equal(fitted.calibration.scores, expected.residuals.calibrated(()).scores)
    assert not torch.equal(fitted.calibration.scores, in_sample.calibration.scores)
    assert fitted.validation.sums.scaled() == in_sample.validation.sums.scaled()  # of the run's own weights


def test_a_start_is_also_calibrated_by_training_windows_that_other_windows_forecast(tmp_path: Path) -> None:
    prepared = prepare(Settings.parse(quick(tmp_path, "training.start_confidence=0.9")))
    maps, train = prepared.linear_maps, prepared.data.parts["train"]
    network = prepared.network.eval()
    rows = score(network, prepared.data, maps.baseline, cross_fits=maps.cross_fits)
    alone = score(network, prepared.data, maps.baseline)
    assert len(maps.cross_fits) == 3
    for fit, (part, rest) in zip(maps.cross_fits, cross_validation(train, maps.baseline.every), strict=True):
        torch.testing.assert_close(fit.ridge.weight, refit(rest, maps.baseline).weight)
        assert torch.equal(fit.starts, part.starts)
    for name in ("model", "linear_path", "linear"):
        row, other = rows[name], alone[name]
        assert row is not None
        assert other is not None
        assert row.training_windows == len(train)
        assert row.calibration.count == other.calibration.count + len(train)
        assert row.validation.sums.scaled() == other.validation.sums.scaled()
        assert (row.validation.intervals is None) == (other.validation.intervals is None)
    last = rows["last_value"]
    assert last is not None
    assert last.training_windows == 0


def test_cross_fitted_quantiles_are_those_of_a_network_that_starts_from_the_map(tmp_path: Path) -> None:
    words = ["training.start_confidence=0.9", "loss=quantile", "model.linear_path=weighted"]
    prepared = prepare(Settings.parse(quick(tmp_path, *words)))
    fit, path = prepared.linear_maps.cross_fits[0], prepared.network.linear_path
    assert path is not None
    path.start_from(fit.start.weight, fit.start.known, fit.offsets)
    batch = prepared.data.parts["test"].batch(torch.tensor([0, 5]))
    torch.testing.assert_close(fit.quantiles(batch), network_forecaster(prepared.network.eval())(batch))


def ett(name: str, context_length: int) -> ForecastData:
    path = SHARED_DATA / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the data folder")
    series = read_series(path, time_column="date", frequency="h")
    return ForecastData(
        Source(series, Roles(list(series.frame.columns)), path),
        {"train": 8640, "validation": 2880, "test": 2880},
        context_length=context_length,
        horizon=96,
        batch_size=32,
        evaluation_batch_size=256,
        seed=1,
    )


@pytest.mark.parametrize(("name", "published"), [("ETTh1", 1.295), ("ETTh2", 0.432)])
def test_last_value_has_the_published_score(name: str, published: float) -> None:
    windows = ett(name, 96).parts["test"]
    assert len(windows) == 2785
    assert evaluate(last_value, windows, 512).sums.scaled()["mse"] == pytest.approx(published, rel=0.01)


@pytest.mark.slow
def test_seasonal_naive_and_ridge_have_known_scores_on_etth1() -> None:
    data = ett("ETTh1", 512)
    test = data.parts["test"]
    assert evaluate(SeasonalNaive(test, 24), test, 512).sums.scaled()["mse"] == pytest.approx(0.512, abs=0.002)
    ridge = fit_ridge(data.parts["train"], data.parts["validation"])
    assert evaluate(ridge, test, 512).sums.scaled()["mse"] <= 0.372


def test_bounds_of_a_user_are_the_limits_of_scores_and_forecasts(tmp_path: Path) -> None:
    path = write(tmp_path / "hours.csv", hourly())
    words = [
        "data=csv",
        f"data.path={path}",
        "data.targets=[load,oil]",
        "data.bounds={load: [10,2000], oil: [-50,null]}",
    ]
    data = prepare(Settings.parse(quick(tmp_path / "outputs", *words))).data
    limits = limits_of_data(data)
    assert (limits.lower.tolist(), limits.upper.tolist()) == ([10.0, -50.0], [2000.0, float("inf")])
    assert data.contract().to_dict()["data"]["bounds"] == {"load": [10, 2000], "oil": [-50, None]}
