import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest

import forecast
from benchmarks.published import contest
from benchmarks.published.__main__ import _counted
from benchmarks.published.contest import Entry, Recipe, lengths, quantiles_of
from benchmarks.published.lanes import Commands
from benchmarks.published.record import add_row, read_rows
from benchmarks.published.tasks import TASKS, Task
from forecast.common.errors import InputError
from forecast.common.files import write_json
from forecast.predict.ensemble import Ensemble
from forecast.training.train import train
from tests.conftest import LIGHTNING
from tests.support.small import CONTEXT, QUICK, SMALL, compose, hourly

TASK = Task("small", (), horizon=24, windows=2, season=24, naive_mase=1.0, read=pd.DataFrame, known=("known",))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    words = tuple(word for word in QUICK if not word.startswith("horizon="))
    monkeypatch.setitem(contest.RECIPES, "quick", Recipe((*SMALL["patch_informer"], *words), seeds=2))


def table() -> pd.DataFrame:
    frame = hourly(500 + CONTEXT).set_index("date")
    frame.columns = ["first series", "second", "known"]
    return frame


def train_here(commands: Commands, words: Sequence[str], threads: int | None = None) -> None:
    """Run `python -m forecast.training` in this process."""
    assert words[:2] == ["-m", "forecast.training"]
    train(compose(*words[2:]))


@pytest.mark.filterwarnings(*LIGHTNING)
def test_a_window_is_forecast_from_its_past_and_what_is_known_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Commands, "run", train_here)
    monkeypatch.setattr(contest, "LANES", 1)  # trainings in one process share its random state
    rows = table()
    end = len(rows) - 48
    entry = Entry(TASK, rows, "quick", tmp_path)
    entry.train()
    first, second = entry.forecast()
    minutes = entry.minutes, entry.training_minutes
    assert sorted(minutes[0]) == ["window_0", "window_1"]
    assert min(*minutes[0].values(), minutes[1]) > 0
    assert first.shape == second.shape == (24, 2, 9)
    assert (np.diff(first, axis=2) >= 0).all()
    assert len(pd.read_csv(tmp_path / f"past_{end}.csv")) == end
    members = [
        forecast.load(run).predict(rows[:end], rows[["known"]][end:], levels=[20], quantile=0.5)
        for run in entry.runs(end)
    ]
    assert len(members) == 2
    np.testing.assert_allclose(first[:, 1, 4], np.mean([one["second"] for one in members], 0))
    entry.train()  # the same command again continues, here with nothing to do
    np.testing.assert_array_equal(entry.forecast(), [first, second])
    assert (entry.minutes, entry.training_minutes) == minutes

    def changed(column: str, value: float) -> np.ndarray:
        other = rows.copy()
        other.loc[rows.index[-24:], column] = value
        return Entry(TASK, other, "quick", tmp_path).forecast()[1]

    np.testing.assert_array_equal(changed("second", 1e9), second)  # the future is not in the input
    assert (changed("known", 5.0) != second).any()  # what is known ahead is


def test_a_changed_recipe_takes_no_older_run_or_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, end = Entry(TASK, table(), "quick", Path()), 500
    before = entry._runs(end, 1), entry.forecasts
    assert (entry._runs(end, 1), entry.forecasts) == before
    assert entry._runs(end, 2) != before[0]
    recipe = contest.RECIPES["quick"]
    monkeypatch.setitem(contest.RECIPES, "quick", replace(recipe, words=(*recipe.words, "loss=huber")))
    assert all(one != other for one, other in zip((entry._runs(end, 1), entry.forecasts), before, strict=True))


def test_the_minutes_of_an_interrupted_training_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "LANES", 1)
    monkeypatch.setitem(contest.RECIPES, "quick", replace(contest.RECIPES["quick"], seeds=1))

    def interrupted(commands: Commands, words: Sequence[str], threads: int | None = None) -> None:
        time.sleep(0.06)
        raise KeyboardInterrupt

    monkeypatch.setattr(Commands, "run", interrupted)
    for times in (1, 2):
        entry = Entry(TASK, table(), "quick", tmp_path)
        with pytest.raises(KeyboardInterrupt):
            entry.train()
        assert entry.training_minutes >= times * 0.001


def test_other_rows_take_no_older_run_or_forecast() -> None:
    rows, end = table(), 500
    one = Entry(TASK, rows, "quick", Path())

    def changed(row: int) -> Entry:
        other = rows.copy()
        other.iloc[row, 0] += 1
        return Entry(TASK, other, "quick", Path())

    assert changed(end - 1)._runs(end, 1) != one._runs(end, 1)
    assert changed(end)._runs(end, 1) == one._runs(end, 1)  # a training does not read the rows after its end
    assert changed(end).forecasts != one.forecasts


def test_rows_of_two_commands_stay(tmp_path: Path) -> None:
    record = tmp_path / "record.csv"
    for number in range(2):  # a command has no rows of its own that it could write instead of the other's
        add_row(record, {"task": number})
    assert list(read_rows(record)["task"]) == [0, 1]


def test_scorings_are_counted_when_their_row_is_written(tmp_path: Path) -> None:
    record = tmp_path / "record.csv"
    for recipe, task in (("one", "a"), ("two", "a"), ("one", "b")):
        add_row(record, partial(_counted, {"task": task, "recipe": recipe}))
    assert list(read_rows(record)["times_scored"]) == [1, 2, 1]


def test_a_training_without_its_minutes_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its minutes are unknown"):
        _ = Entry(TASK, table(), "quick", tmp_path).training_minutes


def test_a_training_whose_command_was_killed_is_named_and_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry(TASK, table(), "quick", tmp_path)

    def killed(path: Path, content: dict[str, object]) -> None:
        write_json(path, content)
        assert content["minutes"] is None, "the training does not begin"
        raise KeyboardInterrupt  # nothing is written after it

    with monkeypatch.context() as patch:
        patch.setattr(contest, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            entry.train()
    with pytest.raises(InputError, match="its minutes are unknown, since the command was killed"):
        entry.train()


def test_a_recipe_trains_again_before_each_window_where_rows_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contest.RECIPES, "again", Recipe(("loss=quantile",), retrains=True))
    rows = table()
    end = len(rows) - 48
    assert Entry(TASK, rows, "quick", Path()).trainings == {end: end, end + 24: end}
    assert Entry(TASK, rows, "again", Path()).trainings == {end: end, end + 24: end + 24}
    assert "loss=quantile" not in Entry(TASK, rows, "again", Path()).words(end, 1)
    assert "loss=quantile" in Entry(TASK, rows, "again", Path()).words(2000, 1)
    many = pd.concat([rows, rows])
    assert set(Entry(TASK, many, "again", Path()).trainings.values()) == {len(many) - 48}


def test_variants_are_trained_where_columns_are_known_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(("loss=quantile",), seeds=2, variants=("model.response_width=64", "model.response_width=0"))
    monkeypatch.setitem(contest.RECIPES, "variants", recipe)
    rows = table()
    entry = Entry(TASK, rows, "variants", Path())
    assert [entry.words(400, seed)[-2:] for seed in entry.members] == [
        [f"model.response_width={width}", f"seed={seed}"] for seed, width in enumerate((64, 64, 0, 0), start=1)
    ]
    nothing_ahead = Entry(replace(TASK, known=()), rows, "variants", Path())
    assert [nothing_ahead.words(400, seed)[-2:] for seed in nothing_ahead.members] == [
        ["loss=quantile", f"seed={seed}"] for seed in (1, 2)
    ]


def test_a_training_from_the_start_has_its_look_back_and_half_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    variants, starts = ("model.response_width=8", "model.response_width=0"), ("start_from=pretrained",)
    monkeypatch.setitem(contest.RECIPES, "starts", Recipe(seeds=2, variants=variants, steps=100, starts=starts))
    rows = pd.concat([table()] * 3)
    started = Entry(replace(TASK, known=()), rows, "starts", Path())
    known = Entry(TASK, rows, "starts", Path())
    assert (len(started.members), len(known.members)) == (2, 4)
    for entry, begins in ((started, True), (known, False)):
        for seed in entry.members:
            words = entry.words(1400, seed)
            assert words[-1] == f"seed={seed}"
            assert ("start_from=pretrained" in words) == begins
            assert f"training.max_steps={50 if begins else 100}" in words
            assert ("context_length=512" in words) == begins
            assert any(word.startswith("model.patch_length=") for word in words) != begins


def test_a_recipe_with_a_start_forecasts_few_rows_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(contest.RECIPES, "starts", Recipe(steps=100, starts=("start_from=pretrained",)))
    rows = table().drop(columns="known")
    entry = Entry(replace(TASK, known=()), rows, "starts", tmp_path)
    entry.train()
    assert (entry.jobs, entry.training_minutes) == ([], 0)
    _, last = entry.forecast()
    expected = forecast.zero_shot(rows[:-24].reset_index(), 24, levels=contest.INTERVALS)
    np.testing.assert_allclose(last, quantiles_of(expected, ["first series", "second"]))


def test_a_recipe_that_joins_averages_the_forecast_without_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contest.RECIPES, "joins", Recipe(seeds=2, starts=("start_from=pretrained",), joins=True))
    monkeypatch.setitem(contest.RECIPES, "starts", Recipe(seeds=2, starts=("start_from=pretrained",)))
    rows = table()
    zero = forecast.zero_shot(rows[["first series", "second"]][:-24].reset_index(), 24, levels=contest.INTERVALS)
    trained = cast(Ensemble, SimpleNamespace(predict=lambda *_, **__: zero + 3))  # stands for the mean of two
    for name, known, added in (("joins", (), 2), ("starts", (), 3), ("joins", TASK.known, 3)):
        data = rows if known else rows.drop(columns="known")
        entry = Entry(replace(TASK, known=known), data, name, Path())
        np.testing.assert_allclose(entry.mean(trained, len(rows) - 24), zero + added)
    other = cast(Ensemble, SimpleNamespace(predict=lambda *_, **__: zero[:-1]))
    with pytest.raises(InputError, match="the dates differ"):
        Entry(replace(TASK, known=()), rows.drop(columns="known"), "joins", Path()).mean(other, len(rows) - 24)


def test_a_forecast_without_training_does_not_read_marks_of_missing_values_as_measured() -> None:
    rows = table().drop(columns="known")
    marked = rows.copy()
    marked.iloc[100:103, 0] = -9999.0
    empty = marked.mask(marked == -9999.0)
    entries = [Entry(replace(TASK, known=(), floor=-999.0), one, "quick", Path()) for one in (marked, empty)]
    first, second = (entry.window(None, len(rows) - 24) for entry in entries)
    np.testing.assert_allclose(first, second)


@pytest.mark.parametrize(
    ("name", "rows", "series", "look_back", "patch", "validation", "batch"),
    [
        ("epf_np", 51_936, 1, 336, 6, 5_193, 32),
        ("ETT_1D", 164, 14, 14, 4, 70, 12),
        ("ETT_1W", 38, 14, 4, 4, 19, 12),
        ("jena_weather_10T", 49_824, 21, 672, 24, 4_982, 8),
    ],
)
def test_the_lengths_follow_season_horizon_and_rows(
    name: str, rows: int, series: int, look_back: int, patch: int, validation: int, batch: int
) -> None:
    steps, *words = lengths(TASKS[name], rows, series, 1000)
    split = f"{{train: {rows - validation}, validation: {validation}, test: 0}}"
    assert words[:4] == [
        f"context_length={look_back}",
        f"model.patch_length={patch}",
        f"data.split={split}",
        f"training.batch_size={batch}",
    ]
    windows = rows - validation - look_back - TASKS[name].horizon + 1
    assert windows >= 3
    most = min(1000, math.ceil(10 * windows / batch))
    assert steps == f"training.max_steps={most}"
    per_epoch = float(words[5].partition("=")[2])
    assert windows / batch / per_epoch == pytest.approx(most / 10, rel=1e-3)  # steps between validations


@pytest.mark.parametrize(
    ("name", "series", "steps"),
    [("jena_weather_10T", 21, 1500), ("jena_weather_1H", 21, 2000), ("ETT_15T", 14, 1500), ("ETT_1H", 14, 1500)],
)
def test_trainings_on_wide_windows_are_shorter(name: str, series: int, steps: int, tmp_path: Path) -> None:
    columns = [f"series {number}" for number in range(series)]
    frame = pd.DataFrame(np.ones((4000, series)), pd.date_range("2020", periods=4000, freq="h"), columns)
    words = Entry(TASKS[name], frame, "general", tmp_path).words(3900, 1)
    assert f"training.max_steps={steps}" in words


def test_the_levels_of_a_file_are_in_rising_order() -> None:
    columns = {f"a_lower_{level}": [50 - level] for level in (20, 40, 60, 80)}
    columns |= {f"a_upper_{level}": [50 + level] for level in (20, 40, 60, 80)} | {"a": [50]}
    (quantiles,) = quantiles_of(pd.DataFrame(columns), ["a"])[0]
    assert quantiles.tolist() == [-30, -10, 10, 30, 50, 70, 90, 110, 130]
