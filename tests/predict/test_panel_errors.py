"""Intervals of a panel that follow the errors of the latest forecasts of each series."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import forecast
from forecast.common.errors import InputError
from forecast.evaluation.adaptive import DECAY, MOST, SPAN, Adaptive, Forms
from forecast.predict.__main__ import main
from forecast.predict.forecast import Question
from forecast.predict.input import ids_of
from forecast.predict.panel import PanelForecaster
from forecast.predict.panel_errors import recent_sizes
from forecast.predict.panel_output import FORMS, PanelOutcome
from tests.conftest import TinyRun
from tests.support.panels import STORES, stores
from tests.support.small import HORIZON, snapshot, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")

KNOWN = stores(future=False)


@pytest.fixture(scope="module")
def model(panel_run: TinyRun) -> PanelForecaster:
    """Return the model of the ten stores, whose intervals have the levels 1.0, 1.1, … of the stores."""
    loaded = forecast.load(panel_run.path)
    assert isinstance(loaded, PanelForecaster)
    plain = loaded.forms.plain
    typical = plain.scores[..., 0].nanmean(0).reshape(HORIZON, 1)
    sizes = 1 + torch.arange(10.0)[:, None, None] / 10
    copied = replace(loaded)
    copied.__dict__["forms"] = Forms(plain, Adaptive(typical, 0.5, plain, sizes))  # a cached property
    return copied


def widths(table: pd.DataFrame) -> pd.Series:
    """Return the mean width of the intervals of each store."""
    return (table["sales_upper_80"] - table["sales_lower_80"]).groupby(table["store"]).mean()


def test_the_size_of_recent_errors_is_the_weighted_mean_over_six_horizons(model: PanelForecaster) -> None:
    series = model.checked(KNOWN, "the frame")
    ids, form = ids_of(series), model.forms.adaptive
    assert form is not None
    found = recent_sizes(model, model.residuals_from, series, ids.offsets[1:])
    assert found is not None
    typical = form.typical[:, 0].numpy()
    trained = pd.Timestamp(str(model.facts.calibration["last_training_row"]))
    for place in (0, 2, 9):
        name = ids.names[place][0]
        own = KNOWN[KNOWN["store"] == int(name)].reset_index(drop=True)
        scale, errors = model.scales.scale[place, 0], np.empty(0)
        for first in range(len(own) - SPAN * HORIZON, len(own), HORIZON):
            if own["date"][first] <= trained:
                assert name == "3"
                continue
            forecasts = model.predict(own[:first], own[first:].drop(columns="sales"))
            values = own["sales"].to_numpy()[first - model.context_length : first]
            spread = np.sqrt((values / scale).var() + 0.2**2)
            truth = own["sales"].to_numpy()[first : first + HORIZON]
            own_errors = np.abs(truth - forecasts["sales"].to_numpy()) / scale / spread / typical
            errors = np.append(errors, own_errors.clip(max=MOST))
        weights = np.exp(-np.arange(len(errors))[::-1] / (DECAY * HORIZON))
        assert float(found[place]) == pytest.approx(np.average(errors, weights=weights), rel=0.001)


def test_intervals_follow_the_errors_of_their_own_series_alone(model: PanelForecaster) -> None:
    table = stores()
    rows = table.index[(table["store"] == 4) & table["sales"].notna()][-HORIZON:]
    noise = 30 * np.random.default_rng(0).standard_normal(len(table))
    wild = table.assign(sales=table["sales"].where(~table.index.isin(rows), table["sales"] + noise))
    before, after = (model.predict(each, levels=[80], adaptive=True) for each in (table, wild))
    others = before["store"] != "4"
    pd.testing.assert_frame_equal(before[others], after[others], check_exact=True)
    plain, plain_after = (model.predict(each, levels=[80]) for each in (table, wild))
    assert plain_after["sales"].equals(after["sales"])
    ratio, ratio_after = (widths(one) / widths(other) for one, other in ((before, plain), (after, plain_after)))
    assert ratio_after["4"] > 1.2 * ratio["4"]  # the rows widen the plain intervals too, since the look-back has them


def test_the_size_is_the_geometric_mean_of_the_stored_and_the_recent_one(model: PanelForecaster) -> None:
    form = model.forms.adaptive
    assert form is not None
    scale = form.of_series(torch.tensor([3, -1]), torch.full((2, 1, 1), 4.0))
    assert scale.flatten().tolist() == pytest.approx([(1.3 * 4) ** 0.25, 4**0.25])


def test_a_series_with_too_few_rows_after_training_is_refused(
    model: PanelForecaster, panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = pd.Timestamp(str(model.facts.calibration["last_training_row"]))
    early = KNOWN[(KNOWN["store"] != 7) | (KNOWN["date"] <= end + pd.Timedelta(hours=HORIZON - 1))]
    future = stores().merge(early, how="left", on=["store", "date"], suffixes=("", "_known"))
    future = future.assign(sales=future["sales_known"])[["store", "date", "sales", "promo", "kind"]]
    with pytest.raises(InputError, match=r"adaptive: 1 of 10 series, the first store '7', have fewer than 12 rows"):
        model.predict(future, levels=[80], adaptive=True)
    assert len(model.predict(future, levels=[80], adaptive=True, ids=[1, 2])) == 2 * HORIZON


def test_the_command_says_which_form_the_intervals_have(
    model: PanelForecaster, panel_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "next.csv"
    words = ["--run", str(panel_run.path), "--input", str(write(tmp_path / "stores.csv", stores()))]
    assert main([*words, "--output", str(output), "--levels", "80", "--adaptive"]) == 0
    is_plain = forecast.load(panel_run.path).forms.adaptive is None  # type: ignore[union-attr]
    end = "plain form: the run found no" if is_plain else "as wide as the errors of the latest forecasts of each series"
    assert end in capsys.readouterr().out
    described = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    assert described["intervals"]["form"] == ("plain" if is_plain else "adaptive")
    before = snapshot(tmp_path)
    assert main([*words, "--output", str(output), "--adaptive"]) == 2
    assert "there are no intervals to adapt: add levels" in capsys.readouterr().err
    assert snapshot(tmp_path) == before
    assert list(STORES) == pd.read_csv(output)["store"].astype(str).unique().tolist()


def test_the_line_names_the_form_of_the_run_or_of_any_run_of_an_ensemble(model: PanelForecaster) -> None:
    plain = replace(model)
    plain.__dict__["forms"] = Forms(model.forms.plain)  # a cached property
    both = replace(plain, others=(model,))
    both.__dict__["forms"] = plain.forms
    series, question = model.checked(stores(), "the frame"), Question((80.0,), None, True, False)
    for each, end in ((plain, FORMS["plain"]), (model, FORMS["adaptive"]), (both, FORMS["adaptive"])):
        found = each.answer(series, question)
        line = PanelOutcome(each, series, Path("stores.csv"), [], question, found, {}).interval_line()
        assert line is not None
        assert line.endswith(end)


def test_a_young_series_is_left_out_where_training_left_out_short_ones(model: PanelForecaster) -> None:
    dropping, table = model.dropping_short, stores()
    dropping.__dict__["forms"] = model.forms
    end = pd.Timestamp(str(model.facts.calibration["last_training_row"]))
    young = (table["store"] == 7) & (table["date"] > end + pd.Timedelta(hours=HORIZON - 1)) & table["sales"].notna()
    table = table[~young]
    later = (table["store"] == 7) & table["sales"].isna()
    moved = table.loc[later, "date"] - pd.Timedelta(hours=int(young.sum()))
    table = table.assign(date=table["date"].mask(later, moved.reindex(table.index)))
    words = r"1 of 10 series have fewer than 12 rows with earlier forecasts.*\(adaptive\): store '7' .*: left out"
    with pytest.warns(UserWarning, match=words):
        found = dropping.predict(table, levels=[80], adaptive=True)
    assert found["store"].unique().tolist() == [store for store in STORES if store != "7"]
    with pytest.raises(InputError, match=r"adaptive: 1 of 2 series, the first store '7'"):
        dropping.predict(table, levels=[80], adaptive=True, ids=[6, 7])
