"""The script that compares reports from a quiet and a busy machine, with fake reports."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import load
from tests.support.small import read_rows

Planted = Callable[..., list[str]]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    """Yield a function that runs the script with fake verdicts on `linear` and returns the names of its sweeps."""
    made: list[str] = []
    before = signal.getsignal(signal.SIGTERM)

    def run(*words: str, quiet: str = "faster", busy: str = "busy machine", long: str = "faster") -> list[str]:
        def sweep(name: str, mechanisms: str, look_backs: str, options: Any) -> dict[tuple[str, str], dict[str, str]]:
            made.append(name)
            (tmp_path / "work" / "sweeps" / name).mkdir(parents=True)
            verdict = {"quiet": quiet, "busy": busy, "long": long}[name.split("-")[-1]]
            row = {f"{time_}_{fact}": "1" for time_ in load.TIMES for fact in (*load.FACTS, "disturbed", "rounds")}
            row |= {f"{time_}_against_full": verdict for time_ in load.TIMES}
            return {(mechanism, look_backs): row for mechanism in mechanisms.split(",")}

        monkeypatch.setattr(load, "_sweep", sweep)
        output = str(tmp_path / "load.csv")
        words = ("--output", output, "--work", str(tmp_path / "work"), "--mechanisms", "full,linear", *words)
        made.append(str(load.main([*words, "--look-backs", "96"])))
        return made

    yield run
    signal.signal(signal.SIGTERM, before)


def test_pairs_alternate_their_order_and_a_second_command_adds_missing_ones(planted: Planted, tmp_path: Path) -> None:
    first = ["pair-01-quiet", "pair-01-busy", "pair-02-busy", "pair-02-quiet"]
    assert planted("--pairs", "2", "--no-long") == [*first, "0"]
    assert planted("--pairs", "3") == [*first, "0", "pair-03-quiet", "pair-03-busy", "long", "0"]
    rows = read_rows(tmp_path / "load.csv")
    assert [(row["pair"], row["mechanism"]) for row in rows] == [
        *((number, "linear") for number in "123"),
        ("long", "probsparse"),
    ]
    assert {row["quiet_train_against_full"] for row in rows} == {"faster"}
    assert {row["busy_train_against_full"] for row in rows[:3]} == {"busy machine"}
    assert not list((tmp_path / "work" / "sweeps").glob("pair-*"))


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ({}, "0"),
        ({"busy": "faster"}, "0"),
        ({"busy": "slower"}, "1"),
        ({"quiet": "slower", "busy": "faster"}, "1"),
        ({"quiet": "busy machine"}, "1"),  # no verdict was compared
        ({"long": "not clearly"}, "1"),
    ],
)
def test_opposite_verdicts_and_an_undecided_long_look_back_fail(
    planted: Planted, verdicts: dict[str, str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planted("--pairs", "1", **verdicts)[-1] == code
    opposite = {"faster", "slower"} == {verdicts.get("quiet", "faster"), verdicts.get("busy", "busy machine")}
    assert f"1 pairs: {2 * opposite} opposite verdicts" in capsys.readouterr().out
    assert read_rows(tmp_path / "load.csv")[0]["opposite"] == ("train inference" if opposite else "")


def test_a_core_is_busy_only_within_the_block() -> None:
    with load._core_in_use(True) as used:
        time.sleep(0.3)
    assert used[0] > 0
    with load._core_in_use(False) as unused:
        pass
    assert unused == [0.0]
