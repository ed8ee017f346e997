"""`forecast explain`: contributions that sum to the forecast minus its reference."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import forecast
from forecast.common.errors import InputError
from forecast.model.original_units import Context
from forecast.predict.ensemble import Ensemble
from forecast.predict.explain import main
from forecast.predict.explanation import Explained, borders_of, mean_explained
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Origins
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


def same_mean(found: pd.DataFrame, *each: pd.DataFrame) -> None:
    """Assert that a table has the means of the contributions of several."""
    assert found[["by", "part", "time"]].equals(each[0][["by", "part", "time"]])
    mean, own = sum(table["contribution"] for table in each) / len(each), each[0]["contribution"]
    np.testing.assert_allclose(found["contribution"], mean, rtol=0, atol=1e-6 * own.abs().max())
    assert (mean - own).abs().max() > 1e-4 * own.abs().max()


def test_the_contributions_to_the_mean_are_the_mean_of_the_contributions(
    tiny_run: TinyRun, second_run: Path, tmp_path: Path
) -> None:
    several = Ensemble.load([tiny_run.path, second_run])
    table = several.explain(tiny_run.table, target="oil")
    same_mean(table, *(member.explain(tiny_run.table, target="oil") for member in several.members))
    np.testing.assert_allclose(totals(table)["past"], several.predict(tiny_run.table)["oil"], rtol=0, atol=1e-2)


def test_the_contributions_to_the_mean_of_a_panel_are_the_mean_of_the_contributions(panel_run: TinyRun) -> None:
    one = forecast.load(panel_run.path)
    assert isinstance(one, PanelForecaster)
    network = copy.deepcopy(one.model)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.1)
    other = replace(one, model=network)
    several = replace(one, others=(other,))
    same_mean(several.explain(stores(), 7), one.explain(stores(), 7), other.explain(stores(), 7))
    rolling = several.rolling(stores(), Origins("2024-01-11"), Question())
    assert rolling.explained is None


LENGTH = 48


def made(forward: object, length: int = LENGTH) -> Explained:
    """Return a forecast of three hours from two days of two columns, by a known model."""
    contract = contract_of(["load", "air"], length, horizon=3)
    random = torch.Generator().manual_seed(0)
    past = torch.rand(1, LENGTH, 2, generator=random, dtype=torch.float64)[:, -length:]
    context = Context(past, torch.zeros(1, length, 0), torch.zeros(1, 3, 0), None)
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


def test_models_of_different_look_backs_share_the_parts_of_the_longest() -> None:
    def oldest(windows: Context) -> Tensor:
        """Return the oldest load of the look-back."""
        return windows.past[:, :1, :1].expand(-1, 3, 2)

    short, long = made(oldest, 24), made(oldest)
    assert mean_explained([short, long]).context is long.context
    found = mean_explained([short, long]).table().groupby(["by", "part"])["contribution"].mean()
    first, second = (f"2024-01-0{day} 00:00:00 to 2024-01-0{day} 23:00:00" for day in (1, 2))
    for part, explained in ((first, long), (second, short)):
        load = explained.context.past[0, :, 0]
        assert found["past", part] == pytest.approx(float(load[0] - load.mean()) / 2)
    other = replace(short, context=short.context._replace(past_known=torch.zeros(1, 24, 2)))
    with pytest.raises(InputError, match="other calendar inputs or holidays: explain one of them"):
        mean_explained([long, other])


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
