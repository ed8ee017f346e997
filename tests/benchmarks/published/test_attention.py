from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.published import attention
from benchmarks.published.attention import ARMS, FULL, PATH, main, words_of
from benchmarks.published.choices import PARTS, Part
from benchmarks.published.record import read_rows
from benchmarks.published.tasks import TASKS
from tests.support.small import CONTEXT, QUICK, SMALL, hourly

ROWS = 1_400


def small() -> pd.DataFrame:
    frame = hourly(ROWS + CONTEXT).set_index("date")
    frame.columns = ["first", "second", "known"]
    return frame


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = replace(TASKS["epf_np"], name="small", files=(), read=small, known=("known",))
    monkeypatch.setitem(TASKS, "small", task)  # type: ignore[arg-type]
    split = "{train: 0.5, validation: 0.1, test: 0.4}"
    monkeypatch.setitem(PARTS, "small", Part(ROWS, split, stride=4))  # type: ignore[arg-type]
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tmp_path))


@pytest.mark.usefixtures("_small")
def test_arms_differ_in_attention_alone(tmp_path: Path) -> None:
    words = {arm: words_of(TASKS["small"], tmp_path, arm) for arm in ARMS}
    assert words["mean everywhere"] == [*words[FULL], "attention=mean", "attention@cross_attention=mean"]
    assert not any(word.startswith("data.split") for word in words[FULL])
    assert [word for word in words[PATH] if word.startswith("training.max_steps")] == ["training.max_steps=1"]


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_an_arm_is_compared_with_full_window_by_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = (*SMALL["patch_informer"], *(word for word in QUICK if not word.startswith("horizon=")))
    monkeypatch.setattr(attention, "words_of", lambda task, data, arm: [*quick, *ARMS[arm]])
    record = tmp_path / "attention.csv"
    command = ["--tasks", "small", "--arms", PATH, "--record", str(record), "--folder", str(tmp_path / "runs")]
    for _ in range(2):  # the second time there is nothing to do
        assert main(command) == 0
    full, path = read_rows(record).to_dict("records")
    assert (full["arm"], path["arm"], full["windows"]) == (FULL, PATH, path["windows"])
    assert pd.isna(full["more_mean"])
    own, other = (attention.errors_of(TASKS["small"], tmp_path, arm, tmp_path / "runs") for arm in (PATH, FULL))
    assert path["more_mean"] == pytest.approx(100 * (own.mean() / other.mean() - 1), abs=2e-3)
    assert path["more_low"] <= path["more_mean"] <= path["more_high"]
    assert path["share"] == pytest.approx(0, abs=1e-9)  # the linear path alone
    page = tmp_path / "page.md"
    page.write_text(f"{attention.BEGIN}\n{attention.END}\n")
    assert main(["--write", str(page), "--record", str(record)]) == 0
    more, low, high = (f"{path[f'more_{name}']:+.{digits}f}" for name, digits in (("mean", 1), ("low", 2), ("high", 2)))
    (line,) = [line for line in page.read_text().splitlines() if line.startswith("| small |")]
    mark = "**" if path["more_low"] > 0 or path["more_high"] < 0 else ""  # not where the interval is 0 to 0
    assert line.endswith(f"| {mark}{more} %{mark} ({low} to {high}) |")


def test_the_table_has_a_line_for_each_task_and_bold_where_the_interval_excludes_0() -> None:
    full = {"task": "epf_np", "arm": FULL, "SQL": 0.6, "naive_SQL": 1.2}
    higher = {"task": "epf_np", "arm": "mean", "more_mean": 1.34, "more_low": 0.04, "more_high": 2.8}
    alike = {"task": "epf_np", "arm": "linear", "more_mean": -0.04, "more_low": -0.7, "more_high": 1.4}
    lower = {"task": "epf_de", "arm": "probsparse", "more_mean": -1.5, "more_low": -2, "more_high": -0.02}
    capped = {"task": "epf_de", "arm": "linear", "more_mean": 1.5, "more_low": 1, "more_high": 2, "more_capped": True}
    rows = [full, higher, alike, full | {"task": "epf_de"}, lower, capped]
    lines = attention.summary(pd.DataFrame(rows)).splitlines()
    assert lines[0].split(" | ")[1:3] == ["SQL of `full` / seasonal naive", "`probsparse`"]
    assert lines[2:] == [
        "| epf_np | 0.500 |  | -0.0 % (-0.70 to +1.40) | **+1.3 %** (+0.04 to +2.80) |  |  |",
        "| epf_de | 0.500 | **-1.5 %** (-2.00 to -0.02) | +1.5 % (+1.00 to +2.00, perhaps too narrow) |  |  |  |",
    ]
