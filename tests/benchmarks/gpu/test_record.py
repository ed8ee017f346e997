from pathlib import Path

import pytest
import torch

from benchmarks.gpu import record
from benchmarks.gpu.parts import parts
from benchmarks.gpu.record import FOLDER, RECORDS, TABLE, Book, folder_for
from benchmarks.gpu.targets import NOT_MEASURED, TARGETS, Target, table_of
from forecast.common.errors import InputError

CPU = torch.device("cpu")
STEP = next(target for target in TARGETS if target.case == "linear against full")


def test_every_figure_belongs_to_one_part() -> None:
    measured = [target.key for part in parts() for target in part.targets]
    assert sorted(measured) == sorted(target.key for target in TARGETS)


def test_a_finished_figure_is_not_repeated_and_another_commit_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(tmp_path, CPU)
    assert not book.has(STEP)
    book.add([STEP], {"linear against full": 1.5}, 12.3)
    assert Book(tmp_path, CPU).has(STEP)
    monkeypatch.setattr(record, "source", lambda: "another")
    assert not Book(tmp_path, CPU).has(STEP)


@pytest.mark.parametrize(
    ("value", "at_most", "verdict"),
    [
        (1.0, False, "below the requirement"),
        (1.3, False, "reaches the requirement"),
        (2.0, False, "reaches the aim"),
        (1.0, True, "reaches the requirement"),
        (float("inf"), True, "below the requirement"),
    ],
)
def test_a_value_is_compared_with_its_bounds(value: float, at_most: bool, verdict: str) -> None:
    target = Target("part", "case", "unit", 1.3, 0.5 if at_most else 2.0, at_most)
    assert target.verdict({"value": str(value), "error": ""}) == verdict


def test_the_table_names_what_is_not_measured_and_what_failed(tmp_path: Path) -> None:
    book = Book(tmp_path, CPU)
    book.add([STEP], {}, 1.0, "RuntimeError: too large")
    text = (tmp_path / TABLE).read_text(encoding="utf-8")
    assert text.count(NOT_MEASURED) == len(TARGETS) - 1
    assert "| RuntimeError: too large |" in text


def test_the_record_has_the_table_of_its_rows() -> None:
    rows = Book(FOLDER, CPU).rows
    assert (FOLDER / TABLE).read_text(encoding="utf-8") == table_of(rows)
    assert [row for row in rows if "cpu" in row["torch"]] == []


def test_numbers_of_a_cpu_or_of_small_shapes_are_not_written_into_the_record() -> None:
    assert folder_for(None, torch.device("cuda"), small=False) == FOLDER
    for device, small in ((CPU, False), (torch.device("cuda"), True)):
        assert folder_for(None, device, small) is None
        with pytest.raises(InputError, match="choose another folder"):
            folder_for(RECORDS / "gpu", device, small)
