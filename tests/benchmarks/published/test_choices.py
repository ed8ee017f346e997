import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.published import choices
from benchmarks.published.choices import PARTS, Part, score, summary, words_of
from benchmarks.published.record import read_rows
from benchmarks.published.tasks import TASKS
from forecast.data.split import split_rows
from tests.support.small import CONTEXT, QUICK, SMALL, hourly

FOLDER = Path(os.environ.get("FORECAST_DATA_DIR", "none"))


@pytest.mark.skipif(not (FOLDER / "EPF_NP.csv").is_file(), reason="needs the real series")
@pytest.mark.parametrize("name", PARTS)
def test_settings_are_chosen_before_the_published_windows(name: str) -> None:
    task = TASKS[name]
    assert PARTS[name].rows <= task.cutoffs(task.table(FOLDER))[0]


def test_the_rows_of_the_standard_test_parts_are_left_out() -> None:
    assert PARTS["ETT_15T"].rows == 34_560 + 11_520
    assert PARTS["ETT_1H"].rows == 8_640 + 2_880
    assert PARTS["jena_weather_10T"].rows <= split_rows(52_696, 0.7, 0.1, 0.2).test.start
    assert 6 * PARTS["jena_weather_1H"].rows <= split_rows(52_696, 0.7, 0.1, 0.2).test.start


@pytest.mark.exhaustive
def test_a_row_has_the_scores_of_the_newest_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small() -> pd.DataFrame:
        frame = hourly(700 + CONTEXT).set_index("date")
        frame.columns = ["first", "second", "known"]
        return frame

    task = replace(TASKS["epf_np"], name="small", files=(), read=small, known=("known",))
    monkeypatch.setitem(PARTS, "small", Part(700, "{train: 0.7, validation: 0.1, test: 0.2}"))  # type: ignore[arg-type]
    words = [*SMALL["patch_informer"], *QUICK]
    row = score(task, tmp_path, "mine", words, tmp_path)
    assert len(pd.read_csv(tmp_path / "small_mine" / "past.csv")) == 700
    assert 0 < row["SQL"] < row["naive_SQL"] * 5
    assert row["name"] == "mine"
    for word in ("data.split={train: 0.7, validation: 0.1, test: 0.2}", *words):
        assert word.partition("=")[0] in row["command"]
    assert words_of(task, small(), tmp_path, ["data.split=other"]).count("data.split=other") == 1
    assert not any("0.7" in word for word in words_of(task, small(), tmp_path, ["data.split=other"]))
    record = tmp_path / "choices.csv"
    pd.DataFrame([row, {**row, "name": "worse", "SQL": 9.0}]).to_csv(record, index=False)
    lines = summary(read_rows(record)).splitlines()
    assert [line.index("mine") > 0 for line in lines if "mine" in line] == [True]
    assert lines.index(next(line for line in lines if "worse" in line)) > lines.index(
        next(line for line in lines if "mine" in line)
    )
    assert read_rows(tmp_path / "none.csv").empty
    page = tmp_path / "page.md"
    page.write_text(f"before\n{choices.BEGIN}\n{choices.END}\nafter\n")
    assert choices.main(["--write", str(page), "--record", str(record)]) == 0
    assert "| mine |" in page.read_text()
