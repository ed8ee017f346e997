"""The table of transplants in a report."""

import json
from pathlib import Path
from typing import Any

import pytest

from forecast.common.text import NONE
from forecast.report.content import make_content
from forecast.report.sections import sections_of
from forecast.report.transplants import TITLE, transplant_table
from forecast.runs.read import read_runs
from forecast.runs.run import TRANSPLANT
from tests.report import made


def scored(attention: str, look_back: int, mse: float, seconds: float | None = 0.002, **more: Any) -> dict[str, Any]:
    """Return a row of the file that `python -m forecast.predict.transplant` writes."""
    return {
        **{"attention": attention, "context_length": look_back, "test": {"mse": mse, "mae": mse / 2}},
        **{"windows": 2000, "seconds_per_window": seconds, "trained": False, **more},
    }


def written(root: Path, contents: dict[int, Any]) -> Path:
    """Write a run of `full` for each seed, with the content of its file."""
    for seed, content in contents.items():
        folder = made.write_run(root / f"seed-{seed}", made.result_of("full", 96, seed))
        if content is not None:
            (folder / TRANSPLANT).write_text(content if isinstance(content, str) else json.dumps({"scored": content}))
    return root


def test_the_table_has_the_scores_of_the_weights_under_other_attention_and_look_backs(tmp_path: Path) -> None:
    own = scored("full", 96, 0.4, 0.004, trained=True)
    contents = {
        1: [own, scored("linear", 96, 0.5, 0.001), scored("full", 192, 0.44), scored("full", 192, 0.44)],
        2: [own, scored("linear", 96, 0.6, 0.001)],
        3: None,
    }
    (section,) = sections_of(read_runs([written(tmp_path, contents)]).runs)
    table = transplant_table(section)
    assert table is not None
    assert table.cells == [
        ["full", "96", "linear", "96", "2", "0.5500", "0.2750", "+37.5", "0.25"],
        ["full", "96", "full", "192", "1", "0.4400", "0.2200", "+10.0", "0.5"],
    ]


def test_the_table_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecast.report.content.draw_pictures", made.no_pictures)
    contents = {1: [scored("full", 96, 0.4, trained=True), scored("mean", 96, 0.8, None)]}
    (chapter,) = make_content("a report", read_runs([written(tmp_path / "runs", contents)])).chapters
    (table,) = [part for part in chapter.parts if getattr(part, "title", "") == TITLE]
    assert table.cells[0][-2:] == ["+100.0", NONE]  # a single batch has no time


def test_a_missing_score_is_a_dash_and_does_not_hide_the_others(tmp_path: Path) -> None:
    lines = [scored("full", 96, 0.4, trained=True), scored("linear", 96, 0.5), scored("mean", 96, 0.5)]
    lines[1]["test"] = {"mse": None, "mae": None}
    (section,) = sections_of(read_runs([written(tmp_path, {1: lines})]).runs)
    table = transplant_table(section)
    assert table is not None
    assert [row[5] for row in table.cells] == [NONE, "0.5000"]


def test_without_transplants_there_is_no_table(tmp_path: Path) -> None:
    (section,) = sections_of(read_runs([written(tmp_path, {1: None})]).runs)
    assert transplant_table(section) is None


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "7",
        '{"scored": [{"context_length": 1e999}, {"attention": "full", "context_length": 1e999}]}',
        '{"scored": [{"attention": "full"}, {}]}',
        '[{"attention": "full"}]',
        '{"a": 1}',
    ],
)
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    (section,) = sections_of(read_runs([written(tmp_path, {1: content})]).runs)
    table = transplant_table(section)
    assert table is not None
    assert not table.cells
    assert "seed-1: its transplant.json is not readable and is left out" in table.notes


def test_an_error_of_zero_as_trained_has_no_relative_difference(tmp_path: Path) -> None:
    lines = [scored("full", 96, 0.0, trained=True), scored("linear", 96, 0.5)]
    (section,) = sections_of(read_runs([written(tmp_path, {1: lines})]).runs)
    table = transplant_table(section)
    assert table is not None
    assert [row[5:8] for row in table.cells] == [["0.5000", "0.2500", NONE]]


@pytest.mark.parametrize("stride", [1, 10])
def test_scores_of_all_windows_are_told_from_those_of_the_results(stride: int, tmp_path: Path) -> None:
    result = made.result_of("full", 96)
    result["data"]["evaluation_stride"] = stride
    folder = made.write_run(tmp_path / "run", result)
    lines = [scored("full", 96, 0.4, trained=True), scored("linear", 96, 0.5)]
    (folder / TRANSPLANT).write_text(json.dumps({"scored": lines}))
    (section,) = sections_of(read_runs([tmp_path]).runs)
    table = transplant_table(section)
    assert table is not None
    assert any("the table Results has only some of them" in note for note in table.notes) == (stride > 1)
