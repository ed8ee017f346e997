"""Which inputs matter over a backtest."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from forecast.backtest.__main__ import main
from forecast.backtest.importance import _alike, _Donors, _exchanged, draw_inputs, input_sentences, inputs_that_matter
from forecast.common.errors import InputError
from forecast.model.original_units import Context, stack
from forecast.predict.explanation import Explained
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Origins
from forecast.predict.panel import PanelForecaster
from forecast.predict.rolling import Rolling
from tests.conftest import TinyRun

pytestmark = pytest.mark.usefixtures("signals_and_threads")


def test_a_block_comes_from_another_window_of_the_group_and_keeps_its_order() -> None:
    donors = _Donors(["a", "b", "a", "b", "a", "c"])
    assert donors.with_other.tolist() == [True] * 5 + [False]
    for seed in range(20):
        found = donors.draw(np.random.default_rng(seed))
        assert set(found[[0, 2, 4]]) == {0, 2, 4}
        assert not (found[:5] == np.arange(5)).any()
        assert (found[1], found[3], found[5]) == (3, 1, 5)
    past = torch.arange(4 * 10).reshape(4, 10, 1).double()  # window n has the values 10 n to 10 n + 9
    ahead = past[:, :6].float()
    whole = Context(past, past.float(), ahead, None)
    mixed = _exchanged(whole, _Donors([0] * 4), 4, np.random.default_rng(0))
    blocks = mixed.past[:, :, 0] - torch.arange(10)
    assert bool((mixed.past == mixed.past_known).all())  # all inputs of a block have the same donor
    for start, stop in ((0, 2), (2, 6), (6, 10)):  # seasons are counted from the origin
        assert bool((blocks[:, start:stop] == blocks[:, start, None]).all())
        assert not bool((blocks[:, start] == 10 * torch.arange(4)).any())
    assert len({tuple(row) for row in blocks[:, [0, 2, 6]].tolist()}) == 4
    assert bool((mixed.future_known[:, :4, 0] - mixed.future_known[:, :1, 0] == torch.arange(4)).all())


def rolled(run: TinyRun, forward: object, step: str = "24h") -> Rolling:
    """Return the backtest of a run whose forecasts to be explained are those of another model."""
    model = Forecaster.load(run.path)
    rolling = model.rolling(run.table, Origins("2016-07-20", None, step), Question())
    original = rolling.explained
    assert original is not None

    def explained(place: int) -> tuple[object, Explained]:
        names, own = original(place)
        return names, Explained(own.contract, own.context, own.dates, forward)  # type: ignore[arg-type]

    return Rolling(rolling.history, rolling.blocks, explained)  # type: ignore[arg-type]


def by_yesterday(windows: Context) -> Tensor:
    """Forecast the load of the day before, and half of the oil temperature of now."""
    load = windows.past[:, -24:-12, :1]
    return torch.cat([load, windows.past[:, -1:, 1:2].expand(-1, 12, -1)], 2)


def test_only_inputs_that_the_forecast_reads_matter(tiny_run: TinyRun) -> None:
    table = inputs_that_matter(rolled(tiny_run, by_yesterday))
    assert set(table["input"]) == {"load", "oil", "air", "calendar"}
    rise = table.set_index("input")["rise"]
    assert (rise[["air", "calendar"]] == 0).all()
    assert (rise[["load", "oil"]] != 0).all()
    assert (table["exchanged_mae"] - table["mae"]).to_numpy() == pytest.approx(table["rise"].to_numpy())


def test_an_input_that_tells_about_the_origin_matters_with_its_interval(tiny_run: TinyRun) -> None:
    rolling = rolled(tiny_run, by_yesterday, "12h")
    truth = {place: rolling.history.truth(place, [()]) for place in rolling.places}
    oracle = iter(truth[place] for place in rolling.places)

    def forward(windows: Context) -> Tensor:
        """Return the truth, moved by what was exchanged in the air temperature."""
        away = (windows.past - windows.past[:1])[:, -1, 2:3].abs()
        return torch.from_numpy(next(oracle)) + away[:, None] * torch.tensor([100.0, 0.1])

    rolling = rolled(tiny_run, forward, "12h")
    table = inputs_that_matter(rolling)
    assert table["input"].iloc[0] == "air"
    assert table["low"].iloc[0] > 0
    assert table["mae"].iloc[0] == pytest.approx(0, abs=1e-9)


def test_a_short_look_back_beside_whole_ones_has_a_mask() -> None:
    past, known = torch.rand(1, 4, 2).double(), torch.rand(1, 4, 1)
    short = Context(past, known, known, torch.tensor([0, 1, 1, 1])[None, :, None].expand(1, 4, 2) > 0)
    whole = stack(_alike([short, Context(past, known, known, None)]))
    assert whole.past_observed is not None
    assert whole.past_observed[1].all()
    assert not whole.past_observed[0].all()


def test_the_sentences_say_what_matters_and_what_does_not() -> None:
    rows = [
        ("heat", 10.0, 13.5, 3.5, 2.8, 4.1),
        ("rain", 10.0, 10.0, 0.01, -0.03, 0.05),
        ("x", 10.0, 11, 1, *[np.nan] * 2),
    ]
    table = pd.DataFrame(rows, columns=["input", "mae", "exchanged_mae", "rise", "low", "high"])
    assert input_sentences(table) == [
        "heat matters to this model: exchanged, the MAE changes by +35.0 % (95 % interval +28.0 to +41.0 %).",
        "rain has no effect that these origins show: exchanged, the MAE changes by +0.1 % "
        "(95 % interval -0.3 to +0.5 %).",
        "x: exchanged, the MAE changes by +10.0 %; too few origins for an interval.",
    ]


def test_a_name_with_dollar_signs_is_drawn_as_it_is() -> None:
    table = pd.DataFrame({"input": ["cost in $\\frac$", "wind"], "rise": [2.0, 1.0], "low": [1.0, 0.0], "mae": 4.0})
    assert draw_inputs(table.assign(high=table["rise"] + 1)).startswith(b"\x89PNG")


def test_origins_at_different_hours_are_refused_with_a_cure(tiny_run: TinyRun) -> None:
    with pytest.raises(InputError, match=r"have no other at the same phase of the season \(24 h\): choose a --step"):
        inputs_that_matter(rolled(tiny_run, by_yesterday, "25h"))


def test_the_inputs_of_a_panel_are_exchanged_within_a_series(panel_run: TinyRun) -> None:
    model = PanelForecaster.load(panel_run.path)
    last = panel_run.table.dropna()["date"].max()
    rolling = model.rolling(panel_run.table, Origins(last - pd.Timedelta("73h"), None, "24h"), Question())
    table = inputs_that_matter(rolling)
    assert {"sales", "promo", "kind", "calendar"} <= set(table["input"])
    assert np.isfinite(table["rise"]).all()


def test_the_command_writes_a_table_a_picture_and_a_chapter(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(tiny_run.path), "--input", str(tiny_run.source), "--from", "2016-07-24 08:00"]
    words += ["--step", "24h", "--importance"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    table = pd.read_csv(tmp_path / "out" / "importance.csv")
    assert (table["rise"].diff().dropna() <= 0).all()
    assert (tmp_path / "out" / "backtest-importance.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "backtest.html").read_text()
    assert "Which inputs matter" in page
    assert page.count('src="data:image/png;base64,') == 3
    assert f"{table['input'].iloc[0]}" in capsys.readouterr().out
    assert main([*words, "--refit", "30d", "--output", str(tmp_path / "other")]) == 2
    assert "--importance: is about one model: give one run, and leave out --refit" in capsys.readouterr().err
