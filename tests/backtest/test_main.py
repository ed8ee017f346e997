"""`forecast backtest`: its files, and how it continues."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from forecast.backtest.__main__ import main
from forecast.predict import rolling
from forecast.predict.forecaster import Forecaster
from tests.conftest import TinyRun
from tests.support.small import snapshot, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")

STRETCH = ["--from", "2016-07-24 08:00", "--step", "10h", "--levels", "80"]


def words(run: TinyRun, output: Path, stretch: Sequence[str] = STRETCH) -> list[str]:
    return ["--run", str(run.path), "--input", str(run.source), *stretch, "--output", str(output)]


@pytest.fixture(scope="module")
def finished(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backtest") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "GROUP", 4)
        assert main(words(tiny_run, folder)) == 0
    return folder


def test_the_table_is_that_of_python(finished: Path, tiny_run: TinyRun) -> None:
    own = Forecaster.load(tiny_run.path).backtest(tiny_run.table, "2016-07-24 08:00", step="10h", levels=[80])
    pd.testing.assert_frame_equal(pd.read_parquet(finished / "forecasts.parquet"), own, atol=1e-3)


def test_the_facts_are_the_scores_of_the_table(finished: Path) -> None:
    facts, table = json.loads((finished / "backtest.json").read_text()), pd.read_parquet(finished / "forecasts.parquet")
    assert facts["origins"]["count"] == table["origin"].nunique()
    assert facts["scores"]["values"] == len(table)
    assert facts["better_than_naive"]["of"] == facts["origins"]["count"]
    rows = pd.read_csv(finished / "scores.csv")
    assert list(rows["by"].unique()) == ["origin", "step", "hour of day", "month of year", "series"]
    inside = (table["truth"] >= table["lower_80"]) & (table["truth"] <= table["upper_80"])
    assert facts["scores"]["covered_80"] == pytest.approx(inside.mean())


def test_the_page_opens_offline_and_has_both_pictures(finished: Path) -> None:
    page = (finished / "backtest.html").read_text()
    assert page.count('src="data:image/png;base64,') == 2
    assert re.findall(r'(?:src|href)="(?!data:|#)', page) == []
    assert "origins" in page
    assert "By hour of day" in page


def test_a_backtest_that_was_stopped_continues_to_the_same_bytes(
    finished: Path,
    tiny_run: TinyRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(rolling, "GROUP", 4)
    original, calls = rolling.Rolling.at, list[int]()

    def stopping(self: rolling.Rolling, places: Sequence[int]) -> pd.DataFrame:
        calls.append(len(places))
        if len(calls) == 5:  # two to measure the time, two parts
            raise KeyboardInterrupt
        return original(self, places)

    folder = tmp_path / "whole"
    monkeypatch.setattr(rolling.Rolling, "at", stopping)
    assert main(words(tiny_run, folder)) == 130
    assert sorted(path.name for path in (folder / "parts").iterdir()) == ["00000.parquet", "00001.parquet"]
    assert main(words(tiny_run, folder)) == 0

    count = int(json.loads((folder / "backtest.json").read_text())["origins"]["count"])
    assert f"{count - 8} origins to forecast: about " in capsys.readouterr().out
    ours = {Path(name).name: content for name, content in snapshot(folder).items()}
    theirs = {Path(name).name: content for name, content in snapshot(finished).items()}
    assert ours == theirs


def test_another_backtest_in_the_same_folder_is_refused(
    finished: Path, tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(finished)
    assert main(words(tiny_run, finished, [*STRETCH[:2], "--step", "20h"])) == 2
    assert "holds a backtest with another --step: choose another --output" in capsys.readouterr().err
    write(tmp_path / "mine.csv", tiny_run.table)
    assert main(words(tiny_run, tmp_path)) == 2
    assert "holds other files and no backtest" in capsys.readouterr().err
    assert snapshot(finished) == before


def test_origins_on_rows_of_training_are_warned_of(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stretch = ["--from", "2016-07-23", "--to", "2016-07-25", "--step", "24h"]
    assert main(words(tiny_run, tmp_path / "early", stretch)) == 0
    printed = capsys.readouterr().out
    assert "3 origins from 2016-07-23 00:00:00 to 2016-07-25 00:00:00, 12 steps each" in printed
    assert "WARNING: 2 of 3 origins are before 2016-07-24 08:00:00" in printed
