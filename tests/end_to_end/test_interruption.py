"""Ctrl-C where no step can be saved: one line says what is kept and how it goes on, and that line works."""

import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from forecast.common.errors import Interrupted
from forecast.training import fit as fitting
from forecast.training import prepare as preparation
from forecast.training import train as training
from forecast.training.train import train
from tests.support.small import ROOT, quick


@pytest.fixture
def config(tmp_path: Path, undrawn: None) -> dict[str, Any]:
    return quick(tmp_path / "outputs", "training.max_steps=2")


def interrupted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, end: BaseException) -> None:
    def raises(*_: Any, **__: Any) -> None:
        raise end

    monkeypatch.setattr(module, name, raises)


ENDS = [(KeyboardInterrupt(), signal.SIGINT), (SystemExit(143), signal.SIGTERM)]


@pytest.mark.parametrize(("end", "number"), ENDS)
def test_before_there_is_a_folder_nothing_is_there(
    config: dict[str, Any], end: BaseException, number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", end)
    with pytest.raises(Interrupted, match=r"^interrupted before the first step: no run folder was made: ") as caught:
        train(config)
    assert caught.value.exit_code == 128 + number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("end", "number"), ENDS)
def test_before_the_first_step_the_line_begins_again_there(
    config: dict[str, Any], end: BaseException, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupted(patch, fitting, "_start", end)
        with pytest.raises(Interrupted, match=r"^interrupted before the first step: no training is lost: ") as caught:
            train(config)
    assert caught.value.exit_code == 128 + number
    folder = str(caught.value).rpartition("resume=")[2]
    run, result = train({**config, "resume": folder})
    assert (str(run.path), result["model"]["steps"]) == (folder, 2)


@pytest.mark.parametrize(("end", "number"), ENDS)
def test_a_library_that_fails_as_it_cleans_up_does_not_hide_the_signal(
    config: dict[str, Any], end: BaseException, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning asks a loader for its length before that has begun, if a signal comes between the two."""

    def cleans_up(*_: Any, **__: Any) -> None:
        try:
            raise end
        except BaseException:
            raise RuntimeError("Please call `iter(combined_loader)` first.")  # noqa: B904  # as Lightning does

    monkeypatch.setattr(fitting, "_start", cleans_up)
    with pytest.raises(Interrupted, match=r"^interrupted before the first step: no training is lost: ") as caught:
        train(config)
    assert caught.value.exit_code == 128 + number


def test_a_fault_of_its_own_is_none_of_a_signal(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, fitting, "_start", RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match=r"^shapes differ$"):
        train(config)


def test_while_scoring_the_training_is_saved(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupted(patch, training, "score", KeyboardInterrupt())
        with pytest.raises(
            Interrupted, match=r"^interrupted: the training up to step 2 is saved: resume with "
        ) as caught:
            train(config)
    folder = str(caught.value).rpartition("resume=")[2]
    run, result = train({**config, "resume": folder})
    assert (str(run.path), result["status"]) == (folder, "finished")


def test_while_the_libraries_are_loaded_there_is_a_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "forecast.training.command_line":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "forecast.training.command_line", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped: interrupted while starting: nothing was read or written\n"


def test_what_is_no_signal_passes(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", SystemExit(1))
    with pytest.raises(SystemExit, match=r"^1$"):
        train(config)


def test_a_wrong_option_is_refused_before_the_fits_that_take_long(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", AssertionError("fitted"))
    config["optimizer"]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr"):
        train(config)


def test_the_data_are_said_before_the_fits_that_take_long(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", KeyboardInterrupt())
    with pytest.raises(Interrupted):
        train(config)
    said = capsys.readouterr().out
    assert "synthetic: 700 rows, 1 targets; windows: " in said
    assert said.endswith("fitting the linear models before the first step\n")
