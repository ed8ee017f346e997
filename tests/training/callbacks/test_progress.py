"""Progress of a training in text: steps, loss, validation error, time left."""

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Timer
from rich.console import Console

from forecast.common.progress import quietly
from forecast.training.callbacks import progress
from forecast.training.callbacks.progress import StepProgress


class Training:
    """Calls the callback as a trainer does, with a fake clock."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        total: int,
        *,
        terminal: bool = False,
        max_time: str | None = None,
        first: int = 0,
        **options: Any,
    ) -> None:
        self.now = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)
        self.out = io.StringIO()
        console = Console(file=self.out, force_terminal=terminal, width=120)
        self.trainer: Any = SimpleNamespace(
            global_step=0, max_steps=total, callback_metrics={}, num_val_batches=[4], callbacks=[Timer(max_time)]
        )
        self.trainer.datamodule = SimpleNamespace(first_step=first)
        self.callback = StepProgress(**{"interval": 10, "validation_seconds": None, "console": console, **options})
        self.callback.on_train_start(self.trainer, Any)

    def step(self, seconds: float, loss: float = 0.5) -> None:
        self.now += seconds
        self.trainer.global_step += 1
        self.trainer.callback_metrics["train/loss"] = torch.tensor(loss)
        self.callback.on_train_batch_end(self.trainer, Any, None, None, 0)

    def validate(self, seconds: float, mse: float) -> None:
        self.callback.on_validation_start(self.trainer, Any)
        for number in range(4):
            self.now += seconds / 4
            self.callback.on_validation_batch_end(self.trainer, Any, None, None, number)
        self.trainer.callback_metrics["val/mse"] = torch.tensor(mse)
        self.callback.on_validation_end(self.trainer, Any)

    def text(self) -> str:
        return self.callback.text(self.trainer, self.now)


def test_the_text_has_loss_validation_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, 100)
    for _ in range(10):
        training.step(2.0, loss=0.25)
    assert training.text() == "training loss 0.2500, 3 min 0 s left"
    training.validate(10.0, mse=0.125)
    assert training.text() == "training loss 0.2500, validation MSE 0.1250, 4 min 30 s left"


def test_a_terminal_shows_steps_of_the_total_and_no_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, 546, terminal=True)
    for _ in range(130):
        training.step(1.0)
    training.callback._bar.refresh()
    training.callback.on_train_end(training.trainer, Any)
    assert "step 130 of 546" in training.out.getvalue()
    assert "Epoch" not in training.out.getvalue()


def test_without_a_terminal_a_line_is_printed_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, 100)
    for _ in range(25):
        training.step(5.0, loss=0.5)
    lines = [line for line in training.out.getvalue().splitlines() if line.startswith("step")]
    assert lines == [
        "step 12 of 100: training loss 0.5000, 7 min 20 s left",
        "step 24 of 100: training loss 0.5000, 6 min 20 s left",
    ]


def test_a_long_training_prints_an_estimate_after_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is slower and does not count."""
    training = Training(monkeypatch, 103, validation_seconds=36.0)
    training.step(60.0)
    training.step(25.0)
    _, estimate, hint = training.out.getvalue().splitlines()
    assert estimate == (
        "about 49 min left: 101 steps of 25 s and 11 validations of 36 s, then scoring; Ctrl-C saves a checkpoint"
    )
    assert hint.startswith("to make it shorter: fewer data.targets, ")
    training.step(25.0)
    assert training.out.getvalue().count("about") == 1


def test_the_time_left_ends_with_max_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A validation follows the limit. The timer has not started here, so it still leaves all of its time."""
    training = Training(monkeypatch, 103, validation_seconds=36.0, max_time="00:00:20:00")
    for seconds in (60.0, 25.0, 25.0):
        training.step(seconds)
    assert training.text().endswith(", 20 min left")
    assert training.out.getvalue().splitlines()[1] == (
        "about 21 min left: training.max_time ends it before 101 steps of 25 s and 11 validations of 36 s (49 min), "
        "then scoring; Ctrl-C saves a checkpoint"
    )
    for _ in range(85):
        training.step(10.0)
    assert training.text().endswith(", 2 min 44 s left"), "the steps end before the limit"


def test_a_short_training_prints_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, 100, validation_seconds=1.0)
    for _ in range(40):
        training.step(1.0)
    training.callback.on_train_end(training.trainer, Any)
    assert training.out.getvalue() == ""
    training = Training(monkeypatch, 1000, max_time="00:00:01:00")
    for _ in range(5):
        training.step(2.0)
    assert training.out.getvalue() == ""


def test_a_resumed_training_estimates_from_its_new_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer's own counter is restored only after the start."""
    training = Training(monkeypatch, 100, first=90)
    training.trainer.global_step = 90
    for _ in range(5):
        training.step(2.0)
    assert training.text().endswith(", 10 s left")


def test_a_quiet_training_shows_its_bar_in_a_terminal_and_prints_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with quietly():
        piped, terminal = Training(monkeypatch, 10_000), Training(monkeypatch, 10_000, terminal=True)
        for training in (piped, terminal):
            for _ in range(25):
                training.step(5.0)
        terminal.callback._bar.refresh()
        terminal.callback.on_train_end(terminal.trainer, Any)
    assert piped.out.getvalue() == ""
    assert "step 25 of 10,000" in terminal.out.getvalue()
    assert "left: 9," not in terminal.out.getvalue()


def test_a_notebook_has_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))
    fake = SimpleNamespace(display=lambda content, raw, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=fake))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    with quietly():
        training = Training(monkeypatch, 50, console=Console(file=io.StringIO(), force_jupyter=True))
        for _ in range(3):
            training.step(1.0, loss=0.25)
    assert shown[-1] == "step 3 of 50: training loss 0.2500, 47 s left"
    assert training.out.getvalue() == ""
