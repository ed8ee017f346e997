"""Ctrl-C outside of the training steps: one line says what is saved and how to resume, and it works."""

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
def config(tmp_path: Path) -> dict[str, Any]:
    return quick(tmp_path / "outputs", "training.max_steps=2")


def interrupted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, end: BaseException) -> None:
    def raises(*_: Any, **__: Any) -> None:
        raise end

    monkeypatch.setattr(module, name, raises)


ENDS = [(KeyboardInterrupt(), signal.SIGINT), (SystemExit(143), signal.SIGTERM)]


@pytest.mark.parametrize(("end", "number"), ENDS)
def test_an_interrupt_before_the_folder_leaves_no_files(
    config: dict[str, Any], end: BaseException, number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", end)
    with pytest.raises(Interrupted, match=r"^interrupted before the first step: no run folder was made: ") as caught:
        train(config)
    assert caught.value.exit_code == 128 + number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("end", "number"), ENDS)
def test_an_interrupt_before_the_first_step_names_the_folder_to_resume(
    config: dict[str, Any], end: BaseException, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupted(patch, fitting, "_score_start", end)
        with pytest.raises(Interrupted, match=r"^interrupted before the first step: no training is lost: ") as caught:
            train(config)
    assert caught.value.exit_code == 128 + number
    folder = str(caught.value).rpartition("resume=")[2]
    run, result = train({**config, "resume": folder})
    assert (str(run.path), result["model"]["steps"]) == (folder, 2)


@pytest.mark.parametrize(("end", "number"), ENDS)
def test_a_clean_up_error_of_a_library_does_not_hide_the_signal(
    config: dict[str, Any], end: BaseException, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning reads the length of a loader that has not started, if a signal comes early."""

    def cleans_up(*_: Any, **__: Any) -> None:
        try:
            raise end
        except BaseException:
            raise RuntimeError("Please call `iter(combined_loader)` first.")  # noqa: B904  # as Lightning does

    monkeypatch.setattr(fitting, "_score_start", cleans_up)
    with pytest.raises(Interrupted, match=r"^interrupted before the first step: no training is lost: ") as caught:
        train(config)
    assert caught.value.exit_code == 128 + number


def test_a_runtime_error_without_a_signal_is_raised_unchanged(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, fitting, "_score_start", RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match=r"^shapes differ$"):
        train(config)


def test_an_interrupt_while_scoring_keeps_the_training(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupted(patch, training, "score", KeyboardInterrupt())
        with pytest.raises(
            Interrupted, match=r"^interrupted: the training up to step 2 is saved: resume with "
        ) as caught:
            train(config)
    folder = str(caught.value).rpartition("resume=")[2]
    run, result = train({**config, "resume": folder})
    assert (str(run.path), result["status"]) == (folder, "finished")


def test_an_interrupt_during_imports_is_one_line(
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


def test_an_exit_without_a_signal_is_raised_unchanged(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", SystemExit(1))
    with pytest.raises(SystemExit, match=r"^1$"):
        train(config)


def test_a_wrong_option_is_refused_before_the_linear_fits(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", AssertionError("fitted"))
    config["optimizer"]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr"):
        train(config)


def test_the_data_are_printed_before_the_linear_fits(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(monkeypatch, preparation, "fit_maps", KeyboardInterrupt())
    with pytest.raises(Interrupted):
        train(config)
    output = capsys.readouterr().out
    assert "synthetic: 700 rows, 1 target; windows: " in output
    assert output.endswith("fitting the linear models before the first step\n")
