"""Refits of a backtest: trainings on the rows before, once each."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.backtest import refit
from forecast.backtest.__main__ import main
from forecast.backtest.refit import Refits, split_of
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
    assert not folder.exists()


def test_chosen_origins_are_forecast_as_in_the_whole(tiny_run: TinyRun) -> None:
    model = Forecaster.load(tiny_run.path)
    rolling = model.rolling(tiny_run.table, Origins(START, step="30h"), Question())
    alone = model.rolling(tiny_run.table, Chosen("", listed=(rolling.places[1],)), Question())
    pd.testing.assert_frame_equal(alone.table(), rolling.at(rolling.places[1:2]))
