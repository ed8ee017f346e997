"""`plot`: a forecast on axes of matplotlib."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import forecast
from forecast.predict.panel import PanelForecaster
from tests.conftest import TinyRun


def labels(axes: matplotlib.axes.Axes) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def test_each_target_has_past_naive_fan_truth_and_forecast(tiny_run: TinyRun) -> None:
    model, rows = forecast.load(tiny_run.path), tiny_run.table.iloc[:-12]
    panels = Figure().subplots(2)
    assert model.plot(rows, levels=[80, 50], truth=tiny_run.table, axes=panels) is panels
    assert [panel.get_ylabel() for panel in panels] == ["load", "oil"]
    assert labels(panels[0]) == ["past", "truth", "naive", "80 % interval", "50 % interval", "forecast"]
    drawn = {line.get_label(): line.get_ydata() for line in panels[1].lines}
    np.testing.assert_array_equal(drawn["truth"], tiny_run.table["oil"].iloc[-12:])
    np.testing.assert_array_equal(drawn["forecast"], model.predict(rows)["oil"])
    with pytest.raises(forecast.InputError, match="axes: 1 given, the picture has 2"):
        model.plot(rows, axes=Figure().subplots())


def test_an_ensemble_draws_its_mean(tiny_run: TinyRun) -> None:
    model = forecast.load(tiny_run.path)
    panels = forecast.Ensemble([model, model]).plot(tiny_run.table, axes=Figure().subplots(2))
    drawn = {line.get_label(): line.get_ydata() for line in panels[0].lines}
    np.testing.assert_array_equal(drawn["forecast"], model.predict(tiny_run.table)["load"])


def test_a_panel_has_axes_for_each_of_its_first_series(panel_run: TinyRun) -> None:
    model = forecast.load(panel_run.path)
    assert isinstance(model, PanelForecaster)
    known = panel_run.table.groupby("store").tail(12)
    rows = panel_run.table.drop(known.index)
    names = [str(name) for name in pd.unique(rows["store"])[:2]]
    panels = model.plot(rows, known, ids=names, axes=Figure().subplots(2))
    assert [panel.get_ylabel() for panel in panels] == names
    assert "80 % interval" in labels(panels[0])


def test_a_new_figure_is_one_of_pyplot(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = forecast.load(tiny_run.path).plot(tiny_run.table, levels=())
    assert panels[0].figure.number in pyplot.get_fignums()
    pyplot.close(panels[0].figure)
