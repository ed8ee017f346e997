"""Refits of a backtest: trainings on the rows before, once each."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from forecast.backtest import refit
from forecast.backtest.__main__ import main
from forecast.backtest.refit import Refits, Watch, have_grown, split_of
from forecast.data.sources import load_source
from forecast.predict.ensemble import load
from forecast.predict.forecast import Question
from forecast.predict.forecaster import Forecaster
from forecast.predict.history import Chosen, Origins
from forecast.predict.panel import PanelForecaster
from forecast.runs.run import Run
from forecast.runs.settings import Settings
from tests.conftest import TinyRun
from tests.support.panels import stores

pytestmark = pytest.mark.usefixtures("signals_and_threads")

START = "2016-07-24 08:00"


def words(run: TinyRun, output: Path, *more: str) -> list[str]:
    stretch = ["--from", START, "--step", "30h", "--refit", "3d", *more]
    return ["--run", str(run.path), "--input", str(run.source), *stretch, "--output", str(output)]


def test_validation_keeps_its_share_and_there_is_no_test_split() -> None:
    assert split_of({"train": 0.7, "validation": 0.1, "test": 0.2}) == {"train": 0.9, "validation": 0.1, "test": 0}
    assert split_of({"train": 8640, "validation": 2880, "test": 2880}) == {"train": 0.8, "validation": 0.2, "test": 0}


def test_a_refit_is_made_at_the_first_origin_after_it_is_due(tiny_run: TinyRun, tmp_path: Path) -> None:
    model = Forecaster.load(tiny_run.path)
    rolling = model.rolling(tiny_run.table, Origins(START, step="30h"), Question())
    refits = Refits(model, tiny_run.table, "the frame", Question(), tmp_path)
    groups = refits.groups(rolling, Origins(START, step="3d"))
    dates = rolling.history.whole.grid
    found = [(f"{dates[first]:%d %H}", len(places)) for first, places in groups]
    assert found == [("24 08", 3), ("28 02", 2)]  # due on the 27th at 8, between two origins
    assert [place for _, places in groups for place in places] == rolling.places


def test_a_refit_trains_with_the_options_of_the_run_on_the_rows_before_its_date(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []

    def train(settings: Settings, *, folder: Path) -> tuple[Run, dict[str, Any]]:
        seen.append(settings)
        assert folder == tmp_path / "refits" / "2016-07-24T080000"
        return Run(tiny_run.path), {}

    monkeypatch.setattr(refit, "train", train)
    model = Forecaster.load(tiny_run.path)
    rolling = model.rolling(tiny_run.table, Origins(START, step="30h"), Question())
    refits = Refits(model, tiny_run.table, "the frame", Question(), tmp_path, "00:00:02:00")
    forecasts = refits.forecasts(rolling.history, rolling.places[:1], rolling.places[:2])

    pd.testing.assert_frame_equal(forecasts, rolling.at(rolling.places[:2]))  # the patched training returns the run
    (settings,) = seen
    table = pd.read_parquet(settings.data.path)
    known = tiny_run.table[tiny_run.table["date"] < START]
    pd.testing.assert_frame_equal(table[list(known)], known, check_dtype=False)
    plain, own = settings.plain, tiny_run.config
    assert plain["training"]["max_time"] == "00:00:02:00"
    for group in ("model", "attention", "optimizer", "scheduler", "loss", "seed"):
        assert plain[group] == own[group], group
    assert (plain["context_length"], plain["horizon"]) == (own["context_length"], own["horizon"])
    assert plain["data"]["targets"] == ["load", "oil"]
    assert plain["data"]["split"]["test"] == 0


def test_the_table_of_a_refit_of_a_panel_has_its_ids_and_known_columns(panel_run: TinyRun, tmp_path: Path) -> None:
    model = PanelForecaster.load(panel_run.path)
    refits = Refits(model, stores(), "the frame", Question(), tmp_path)
    data = refits.settings(tmp_path / "table.parquet").data
    assert (data.id_columns, data.known_covariates, data.short_series) == (["store"], ["promo", "kind"], "drop")
    table = refit.rows_before(model.contract, stores(), pd.Timestamp("2024-01-09"), "the frame")
    assert set(table) == {"store", "date", "sales", "promo", "kind"}
    assert table["date"].max() < pd.Timestamp("2024-01-09")
    assert set(table["kind"]) == {"a", "b"}


def test_the_table_of_a_refit_has_labels_of_which_some_are_numbers(panel_run: TinyRun) -> None:
    model = PanelForecaster.load(panel_run.path)
    table = stores()
    table["kind"] = table["kind"].map({"a": "0", "b": "b"})  # "0" is a new label, and no number among labels
    found = refit.rows_before(model.contract, table, pd.Timestamp("2024-01-09"), "the frame")
    assert set(found["kind"]) == {"0", "b"}


def test_finished_refits_are_not_trained_again(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original, trained = refit.train, list[Path]()
    settings_of = Refits.settings

    def few_steps(self: Refits, table: Path, start: Path | None = None) -> Settings:
        plain = settings_of(self, table, start).plain
        return Settings.parse({**plain, "training": {**plain["training"], "max_steps": 2}})

    def train(settings: Settings, *, folder: Path) -> tuple[Run, dict[str, Any]]:
        if (folder / "result.json").is_file():
            return original(settings, folder=folder)
        trained.append(folder)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return original(settings, folder=folder)

    monkeypatch.setattr(Refits, "settings", few_steps)
    monkeypatch.setattr(refit, "train", train)
    folder = tmp_path / "refitted"
    assert main(words(tiny_run, folder)) == 130
    assert main(words(tiny_run, folder)) == 0
    assert [path.name for path in trained] == ["2016-07-24T080000", "2016-07-28T020000", "2016-07-28T020000"]
    printed = capsys.readouterr().out
    assert "2 refits of about" in printed
    assert "1 refit of about" in printed
    assert "WARNING" not in printed

    table = pd.read_parquet(folder / "forecasts.parquet")
    last = Forecaster.load(trained[-1])
    own = last.predict(tiny_run.table[tiny_run.table["date"] < table["origin"].max()])
    ours = table[(table["origin"] == table["origin"].max()) & (table["series"] == "load")]
    assert abs(ours["value"].to_numpy() - own["load"].to_numpy()).max() < 1e-5 * own["load"].std() + 1e-3


def test_an_ensemble_is_not_trained_again(
    tiny_run: TinyRun, second_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = words(tiny_run, tmp_path / "two")
    assert main(["--run", str(second_run), *given]) == 2
    assert "--refit: trains one model again, and --run names several" in capsys.readouterr().err


def test_a_time_limit_without_a_refit_or_of_another_form_is_refused(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "none"
    given = words(tiny_run, folder)
    assert main([*given, "--refit-time", "two minutes"]) == 2
    assert "training.max_time=two minutes: must be dd:hh:mm:ss" in capsys.readouterr().err
    assert main([*given, "--refit", "never", "--refit-time", "00:00:02:00"]) == 2
    assert "--refit-time 00:00:02:00: nothing is trained again" in capsys.readouterr().err
    assert main([*given, "--refit", "never", "--refit-from", "last"]) == 2
    assert "--refit-from last: nothing is trained again" in capsys.readouterr().err
    assert not folder.exists()


def test_chosen_origins_are_forecast_as_in_the_whole(tiny_run: TinyRun) -> None:
    model = Forecaster.load(tiny_run.path)
    rolling = model.rolling(tiny_run.table, Origins(START, step="30h"), Question())
    alone = model.rolling(tiny_run.table, Chosen("", listed=(rolling.places[1],)), Question())
    pd.testing.assert_frame_equal(alone.table(), rolling.at(rolling.places[1:2]))


def fake_training(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Replace the training by a folder without a run; return the list of the settings that it is called with."""
    seen: list[Settings] = []

    def train(settings: Settings, *, folder: Path) -> tuple[Run, dict[str, Any]]:
        seen.append(settings)
        return Run(folder), {}

    monkeypatch.setattr(refit, "train", train)
    return seen


@pytest.mark.parametrize(("start", "first"), [(START, "run"), ("2016-07-23 08:00", None)])
def test_a_refit_begins_with_the_weights_before_unless_they_have_seen_its_origin(
    start: str, first: str | None, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = fake_training(monkeypatch)
    model = Forecaster.load(tiny_run.path)
    history = model.rolling(tiny_run.table, Origins(start, step="30h"), Question()).history
    refits = Refits(model, tiny_run.table, "the frame", Question(), tmp_path)
    last = refits.run(history, [int(place) for place in history.places[:2]])

    before, after = seen
    assert before.start_from == (None if first is None else str(tiny_run.path))
    assert after.start_from == str(tmp_path / "refits" / before.data.name)
    assert last.name == after.data.name
    assert after.training.max_steps == model.result["model"]["steps"] // refit.SHARE
    assert (before.training.max_steps == 40) is (first is None), "from scratch a refit is as long as the run"


@pytest.mark.parametrize("kind", ["one", "many"])
@pytest.mark.parametrize("count", [150, 2000])
def test_a_refit_before_there_are_as_many_rows_as_the_run_reads_trains_on_all(
    kind: str, count: int, tiny_run: TinyRun, panel_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, start = (tiny_run, pd.Timestamp(START)) if kind == "one" else (panel_run, pd.Timestamp("2024-01-09"))
    seen, model = fake_training(monkeypatch), load(run.path)
    assert isinstance(model, Forecaster | PanelForecaster)
    data = {**run.result["config"]["data"], "last_rows": count}
    monkeypatch.setattr(type(model), "settings", property(lambda self: {**self.result["config"], "data": data}))
    reading = replace(model.contract.reading, last_rows=count)
    model = replace(model, contract=replace(model.contract, reading=reading))
    history = model.rolling(run.table, Origins(start, step="30h"), Question()).history
    Refits(model, run.table, "the frame", Question(), tmp_path).run(history, [int(history.places[0])])

    (settings,) = seen
    series = load_source(settings.data).series
    assert pd.DatetimeIndex(series.frame.index).max() < start
    before = run.table[(run.table["date"] < start) & run.table[model.targets[0]].notna()]
    each = [len(before)] if kind == "one" else before.groupby("store").size().tolist()
    assert len(series.frame) == sum(min(rows, count) for rows in each)
    assert settings.data.last_rows == (count if count == 150 else None)


def test_from_scratch_no_weights_begin_a_refit(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = fake_training(monkeypatch)
    model = Forecaster.load(tiny_run.path)
    history = model.rolling(tiny_run.table, Origins(START, step="30h"), Question()).history
    frozen = property(lambda self: {**self.result["config"], "freeze": ["encoder"]})
    monkeypatch.setattr(Forecaster, "settings", frozen)
    refits = Refits(model, tiny_run.table, "the frame", Question(), tmp_path, start="scratch")
    refits.run(history, [int(place) for place in history.places[:2]])
    assert [settings.start_from for settings in seen] == [None], "and none before it is needed"
    assert seen[0].freeze == [], "random weights are not fixed"


def test_errors_have_grown_only_with_a_trend_beyond_chance() -> None:
    noise = np.random.default_rng(0).standard_normal(40) / 4
    trend = np.arange(40) / 40
    assert have_grown(noise + 2 * trend, 1)
    assert not have_grown(noise, 1)
    assert not have_grown(noise - 2 * trend, 1)
    assert not have_grown((noise + 2 * trend)[:7], 1), "seven are too few"
    assert not have_grown((noise + 2 * trend)[:31], 4), "31 origins of which four share targets are too few"


@pytest.fixture
def ratios(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return the errors of the fake origins of `watch`."""
    values = np.random.default_rng(1).standard_normal(40) / 9
    monkeypatch.setattr(refit, "log_ratio", lambda number, _: float(values[number]))
    monkeypatch.setattr(pd, "read_parquet", lambda number: number)
    return values


def watch() -> Any:
    """Return the watch over 40 origins, one in six places, of a model with a horizon of 12."""
    rolling = SimpleNamespace(places=list(range(100, 340, 6)), at=lambda places: places, history=None)
    refits = SimpleNamespace(model=SimpleNamespace(horizon=12), forecasts=lambda _, due, places: (tuple(due), places))
    folder: Any = SimpleNamespace(part=lambda number: number)
    return Watch(cast(Any, refits), cast(Any, rolling), folder)


def test_a_refit_follows_errors_that_are_known_at_its_origin(ratios: np.ndarray) -> None:
    ratios[20:] += np.arange(20) / 4
    made = watch()
    answers = [made.forecasts(number) for number in range(40)]
    first = made.due[0]
    number = (first - 100) // 6
    assert 21 < number < 40
    assert answers[number - 1] == [first - 6]
    assert answers[number] == ((first,), [first])

    ratios[number - 1 :] = 99  # the errors of an origin are known two origins later
    other = watch()
    other.forecasts(number)
    assert other.due == [first]
    ratios[number - 1 :] = 0
    other = watch()
    other.forecasts(number)  # as after an interruption: the origins before are not forecast again
    assert other.due == [first]


def test_the_errors_before_a_refit_do_not_count_after_it(ratios: np.ndarray) -> None:
    ratios[10:20] += np.arange(10)
    ratios[20:] += 9
    made = watch()
    made.forecasts(39)
    assert len(made.due) == 1
