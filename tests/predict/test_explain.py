"""`forecast explain`: contributions that sum to the forecast minus its reference."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import forecast
from forecast.common.errors import InputError
from forecast.model.original_units import Context
from forecast.predict.explain import main
from forecast.predict.explanation import Explained, borders_of
from forecast.predict.forecaster import Forecaster
from forecast.predict.panel import PanelForecaster
from tests.conftest import TinyRun
from tests.support.contracts import contract_of
from tests.support.panels import stores
from tests.support.small import HORIZON

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def totals(table: pd.DataFrame) -> pd.DataFrame:
    """Return the sum of all contributions and the reference, by time and view."""
    return table.groupby(["time", "by"])["contribution"].sum().unstack()


@pytest.mark.parametrize("target", ["load", "oil"])
def test_contributions_and_reference_sum_to_the_forecast(tiny_run: TinyRun, target: str) -> None:
    model = Forecaster.load(tiny_run.path)
    table, own = model.explain(tiny_run.table, target=target), model.predict(tiny_run.table)[target]
    assert list(table.columns) == ["by", "part", "time", "contribution", "error"]
    parts = table.groupby("by")["part"].unique()
    assert set(parts["column"]) == {"reference", "load", "oil", "air", "calendar"}
    assert len(parts["past"]) == 4  # the reference, two days and the calendar
    for view in ("column", "past"):
        np.testing.assert_allclose(totals(table)[view], own, rtol=0, atol=1e-4 * own.std())


def test_the_contributions_of_a_panel_sum_to_its_forecast(panel_run: TinyRun) -> None:
    model = forecast.load(panel_run.path)
    assert isinstance(model, PanelForecaster)
    table, own = model.explain(stores(), 7), model.predict(stores(), ids=7)["sales"]
    np.testing.assert_allclose(totals(table)["column"], own, rtol=0, atol=1e-4 * own.std())
    assert {"sales", "promo", "kind", "calendar"} < set(table["part"])
    with pytest.raises(InputError, match="10 series: the forecast of one is explained"):
        model.explain(stores(), ())


LENGTH = 48


def made(forward: object) -> Explained:
    """Return a forecast of three hours from two days of two columns, by a known model."""
    contract = contract_of(["load", "air"], LENGTH, horizon=3)
    random = torch.Generator().manual_seed(0)
    past = torch.rand(1, LENGTH, 2, generator=random, dtype=torch.float64)
    context = Context(past, torch.zeros(1, LENGTH, 0), torch.zeros(1, 3, 0), None)
    dates = pd.date_range("2024-01-03", periods=3, freq="h")
    return Explained(contract, context, dates, forward)  # type: ignore[arg-type]


def test_a_linear_model_has_the_contributions_of_its_weights() -> None:
    def forward(windows: Context) -> Tensor:
        """Return twice the newest load, less the oldest, and the sum of air."""
        value = (
            2 * windows.past[:, -1, 0] - windows.past[:, 0, 0] + windows.past[:, :, 1].sum(1) + windows.past[:, -1, 1]
        )
        return value[:, None, None].expand(-1, 3, 2)

    explained = made(forward)
    past = explained.context.past[0]
    away = past - past.mean(0)
    table = explained.table()
    found = table.groupby(["by", "part"])["contribution"].mean()
    assert found["column", "load"] == pytest.approx(float(2 * away[-1, 0] - away[0, 0]))
    assert found["column", "air"] == pytest.approx(float(away[-1, 1]))  # the sum has the reference's sum
    newest = "2024-01-02 00:00:00 to 2024-01-02 23:00:00"
    assert found["past", newest] == pytest.approx(float(2 * away[-1, 0] + away[24:, 1].sum() + away[-1, 1]))
    assert table["error"].max() == 0


def test_the_parts_of_the_past_are_days_then_weeks() -> None:
    assert borders_of(48, 24) == [48, 24, 0]
    assert borders_of(60, 24) == [60, 36, 12, 0]
    long = borders_of(24 * 100, 24)
    assert len(long) == 13
    assert long[-1] == 0
    assert np.diff(long)[:8].tolist() == [-24] * 7 + [-7 * 24]


def test_many_columns_are_explained_as_few() -> None:
    contract = contract_of([f"load{place}" for place in range(30)], LENGTH, horizon=3)
    context = Context(torch.rand(1, LENGTH, 30).double(), torch.zeros(1, LENGTH, 0), torch.zeros(1, 3, 0), None)
    dates = pd.date_range("2024-01-03", periods=3, freq="h")
    table = Explained(contract, context, dates, lambda windows: windows.past[:, -3:]).table("load7")
    parts = table[table["by"] == "column"].groupby("part", sort=False)["contribution"].sum()
    assert list(parts.index)[:2] == ["reference", "load7"]
    assert (len(parts), parts.index[-1]) == (13, "19 other columns")
    assert parts["load0"] == 0


def test_the_command_writes_the_table_and_a_picture(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "why.csv"
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--target", "oil"]
    assert main([*words, "--output", str(output)]) == 0
    own = Forecaster.load(tiny_run.path).explain(tiny_run.table, target="oil")
    table = pd.read_csv(output, parse_dates=["time"])
    np.testing.assert_allclose(table["contribution"], own["contribution"])
    assert len(table[(table["by"] == "column") & (table["part"] == "oil")]) == HORIZON
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "oil, 2016-07-30 04:00:00 to 2016-07-30 15:00:00: mean -4.9" in printed
    assert "  by column, mean size of the contribution to a step (its mean): oil " in printed
    assert "  exact: every order" in printed
    assert main([*words[:4], "--target", "air", "--output", str(output)]) == 2
    assert "target 'air': is not forecast: choose load, oil" in capsys.readouterr().err
