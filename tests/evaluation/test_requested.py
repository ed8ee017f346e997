"""Baselines on request: trees, and the models of `statsforecast`."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from forecast.common.errors import InputError
from forecast.data.windows import Batch
from forecast.evaluation import baselines, statistical, trees
from forecast.evaluation.baselines import REQUESTED, SeasonalNaive, last_value
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.intervals import middle
from forecast.evaluation.scoring import network_forecaster, score
from forecast.evaluation.statistical import check_statistical, fit_statistical
from forecast.evaluation.trees import features, fit_trees
from forecast.runs.labels import arm_labels
from forecast.runs.results import assemble, is_on_all_windows
from forecast.runs.resume import differences
from forecast.runs.settings import MORE_BASELINES, EvaluationSettings, Settings
from forecast.runs.summary import baseline_warning, notes, table_rows
from forecast.training.prepare import Preparation
from tests.support.panels import stores
from tests.support.prepared import prepare
from tests.support.small import compose, hourly, quick, write


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Preparation:
    """Prepare a training on hours whose load follows a known column alone."""
    folder, table = tmp_path_factory.mktemp("trees"), hourly()
    heat = np.random.default_rng(1).uniform(size=len(table))
    table = table.assign(heat=heat, load=np.where(heat > 0.7, 2000.0, 1000.0))[["date", "load", "air", "heat"]]
    words = ["data.targets=[load]", "data.past_covariates=[air]", "data.known_covariates=[heat]"]
    return prepare(Settings.parse(quick(folder, "data=csv", f"data.path={write(folder / 'hours.csv', table)}", *words)))


def test_a_run_without_the_option_is_the_same_run_and_another_baseline_is_another() -> None:
    now, more = compose(), compose("evaluation.baselines=[trees]")
    before = {key: part for key, part in now.items() if key != "evaluation"}
    assert differences(now, before, budget=True) == []
    assert differences(more, before) == ["evaluation.baselines is [] there and ['trees'] here"]
    labels = arm_labels([now, {**more, "attention": {"name": "mean"}}])
    assert labels == ["full", "mean"]


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROWS": 3000, "TREES": 10, "MORE": 10}.items():
        monkeypatch.setattr(trees, name, value)


def test_the_option_has_the_names_of_the_baselines() -> None:
    assert list(REQUESTED) == list(MORE_BASELINES)
    with pytest.raises(InputError, match=r"baselines=forest: choose from trees, ets, theta, arima, each once"):
        EvaluationSettings.parse({"baselines": ["forest"]})
    with pytest.raises(InputError, match="each once"):
        EvaluationSettings.parse({"baselines": ["trees", "trees"]})
    earlier = {key: part for key, part in compose().items() if key != "evaluation"}
    assert not Settings.parse(earlier).evaluation.baselines


def test_trees_find_what_a_known_column_does_and_read_training_rows_alone(hours: Preparation, few_trees: None) -> None:
    data = hours.data
    fitted = fit_trees(data)
    assert fitted.facts["rows"] <= 3000
    test = data.parts["test"]
    naive, ours = (evaluate(each, test, 64).sums.scaled()["mse"] for each in (SeasonalNaive.of(data), fitted))
    assert ours < 0.3 * naive
    later = torch.arange(len(test.values)) >= data.split.validation.start
    before = test.values.clone()
    try:
        test.values[later] = test.values[later].flip(0)  # of validation and test, which share the table
        again = fit_trees(data)
    finally:
        test.values.copy_(before)
    table, _ = features(data.parts["train"].batch(torch.arange(3)), np.indices((3, 12, 1)).reshape(3, -1), 24)
    first = [each.regressors[0]._predictors[0][0].nodes["feature_idx"] for each in (fitted, again)]
    assert np.array_equal(*first)  # the first tree, of the training rows; validation only chooses their number
    assert table.shape[0] == 36


def test_features_do_not_read_the_future(hours: Preparation) -> None:
    batch = hours.data.parts["test"].batch(torch.arange(4))
    places = np.indices(batch.future.shape).reshape(3, -1)
    table, base = features(batch, places, 24)
    other, own_base = features(batch._replace(future=torch.full_like(batch.future, 1e6)), places, 24)
    np.testing.assert_array_equal(table, other)
    np.testing.assert_array_equal(base, own_base)
    past = batch.past.numpy()
    np.testing.assert_allclose(table[:12, 0], past[0, -24:-12, 0] - base[:12], atol=1e-6)  # a day before each step
    np.testing.assert_allclose(base[:12], past[0, -24:, 0].mean(), atol=1e-6)


def test_trees_of_quantiles_give_levels_that_do_not_cross(hours: Preparation, few_trees: None) -> None:
    batch = hours.data.parts["test"].batch(torch.arange(4))
    forecast = fit_trees(hours.data, (0.1, 0.5, 0.9))(batch)
    assert forecast.shape == (*batch.future.shape, 3)
    assert bool((forecast.diff(dim=-1) >= 0).all())


def test_trees_forecast_all_series_of_a_panel(tmp_path: Path, few_trees: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "stores.csv", stores())
    roles = ["data.id_columns=[store]", "data.targets=[sales]", "data.known_covariates=[promo,kind]"]
    data = prepare(Settings.parse(quick(tmp_path, "data=csv", f"data.path={path}", *roles))).data
    windows = data.parts["test"].thinned(7)
    mse = [evaluate(each, windows, 64).sums.scaled()["mse"] for each in (fit_trees(data), last_value)]
    assert mse[0] < mse[1]
    monkeypatch.setattr(statistical, "SERIES", 3)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    with pytest.raises(InputError, match="ets: fits a model of each of 10 series, at most 3 are allowed"):
        check_statistical("ets", data)


class _Last:
    """A stand-in for a model of `statsforecast`: it forecasts the last value."""

    def __init__(self, season_length: int, **_: Any) -> None:
        self.season_length = season_length

    def fit(self, y: np.ndarray) -> "_Last":
        self.rows = y
        return self

    def forward(self, y: np.ndarray, h: int) -> dict[str, np.ndarray]:
        return {"mean": np.repeat(y[-1], h)}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ModuleType("statsforecast.models")
    for name in statistical.MODELS.values():
        setattr(models, name, _Last)
    package = ModuleType("statsforecast")
    package.models = models  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "statsforecast", package)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)


def test_a_model_of_a_series_is_fitted_on_training_rows_in_their_unit(hours: Preparation, package: None) -> None:
    data = hours.data
    fitted = fit_statistical("theta", data)
    rows = data.source.series.frame["load"].to_numpy()[data.train_rows]
    np.testing.assert_array_equal(fitted.models[0, 0].rows, rows[-512:])
    batch = data.parts["test"].batch(torch.arange(4))
    torch.testing.assert_close(fitted(batch), last_value(batch), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("name", "period"), [("ets", 24), ("theta", 1)])
def test_a_look_back_begins_at_the_phase_of_the_fit(
    hours: Preparation, package: None, monkeypatch: pytest.MonkeyPatch, name: str, period: int
) -> None:
    data, seen = hours.data, list[np.ndarray]()
    values = data.source.series.frame["load"].to_numpy()
    fitted = fit_statistical(name, data)
    monkeypatch.setattr(_Last, "forward", lambda _, y, h: seen.append(y) or {"mean": np.zeros(h)})
    batch = data.parts["test"].batch(torch.arange(30))
    fitted(batch)
    first = data.split.train.stop - len(fitted.models[0, 0].rows)
    for y, origin in zip(seen, batch.origin.tolist(), strict=True):
        assert (origin - len(y) - first) % period == 0
        assert 48 - 24 < len(y) <= 48
        np.testing.assert_allclose(y, values[origin - len(y) : origin], rtol=1e-5)


def test_a_missing_package_is_named_with_its_cure(hours: Preparation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"arima: needs the package statsforecast: pip install -e '\.\[baselines\]'"):
        check_statistical("arima", hours.data)


@pytest.fixture
def scored(
    hours: Preparation, package: None, few_trees: None, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], Preparation]:
    """Return the result of an untrained model beside trees, and beside theta on at most 20 windows of a split."""
    monkeypatch.setattr(statistical, "FORECASTS", 20)
    monkeypatch.setattr(baselines, "FORECASTS", 20)
    data, network = hours.data, hours.network.eval()
    rows = score(network, data, hours.linear_maps.baseline, requested=["trees", "theta"])
    facts = {
        "data": {
            "name": "hours",
            "windows": {part: len(windows) for part, windows in data.parts.items()},
            "targets": ["load"],
            "season": 24,
            "frequency": "h",
            "known_covariates": ["heat"],
            "known_readers": ["model", "trees"],
        },
        "config": {"horizon": 12},
    }
    return assemble(rows, targets=["load"], scale=data.target_scale, facts=facts), hours


def test_rows_on_request_are_in_the_result_with_the_mean(scored: tuple[dict[str, Any], Preparation]) -> None:
    result, hours = scored
    row, network, data = result["baselines"]["trees"], hours.network, hours.data
    assert "windows" not in row
    assert row["fit"]["trees"] == 10
    assert {"scaled", "original", "intervals", "mean_with_model"} <= set(row["test"])
    fitted, model = fit_trees(data, network.levels), network_forecaster(network)

    def mean(batch: Batch) -> Tensor:
        return (middle(model(batch)) + middle(fitted(batch))) / 2

    own = evaluate(mean, data.parts["test"], 64).sums.scaled()["mse"]
    assert row["test"]["mean_with_model"]["scaled"]["mse"] == pytest.approx(own, rel=1e-3)


def test_a_row_on_fewer_windows_says_so_and_is_compared_there_alone(
    scored: tuple[dict[str, Any], Preparation],
) -> None:
    result, hours = scored
    row, count = result["baselines"]["theta"], result["baselines"]["theta"]["windows"]["test"]
    assert 0 < count <= 20 < result["data"]["windows"]["test"]
    assert not is_on_all_windows(row)
    windows = hours.data.parts["test"]
    few = windows.thinned(-(-len(windows) // 20))
    there = evaluate(network_forecaster(hours.network), few, 64).sums.scaled()["mse"]
    assert row["test"]["model_there"]["scaled"]["mse"] == pytest.approx(there)
    names = [cells[0] for cells in table_rows(result)]
    assert names[-2:] == ["gradient-boosted trees", f"theta, {count} windows"]
    naive = row["test"]["seasonal_naive_there"]["scaled"]["mse"]
    assert table_rows(result)[-1][-1] == f"{1 - row['test']['scaled']['mse'] / naive:+.1%}"
    assert any(note.startswith(f"mean of the model and theta, {count} windows: MSE ") for note in notes(result))
    assert "read by the model and the trees" in " ".join(notes(result))


def test_a_row_on_fewer_windows_gives_no_warning(scored: tuple[dict[str, Any], Preparation]) -> None:
    result, _ = scored
    for row in result["baselines"].values():
        row["validation"]["scaled"]["mse"] = 10.0
    result["validation"]["scaled"]["mse"] = 5.0
    result["baselines"]["theta"]["validation"]["scaled"]["mse"] = 1.0
    assert baseline_warning(result) is None
    result["baselines"]["trees"]["validation"]["scaled"]["mse"] = 1.0
    warning = baseline_warning(result)
    assert warning is not None
    assert warning.startswith("gradient-boosted trees is better")
