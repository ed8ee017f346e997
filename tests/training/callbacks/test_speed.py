import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import Tensor, nn

from forecast.data.batches import ShuffledBatches
from forecast.data.datamodule import EvaluationBatches
from forecast.data.windows import Batch
from forecast.training.callbacks.speed import WARM_UP_STEPS, Speed
from forecast.training.tensorboard.logger import Board
from tests.support.boards import curve
from tests.support.examples import make_windows

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")

STEP, WAIT, PAUSE = 0.02, 0.005, 0.3
MEASURED = 10


@pytest.fixture
def _advanced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock where a model or callback would sleep."""
    slept, clock = [0.0], time.perf_counter

    def sleep(seconds: float) -> None:
        slept[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + slept[0])


advanced = pytest.mark.usefixtures("_advanced")


class Slow(lightning.LightningModule):
    """Model with steps and batches of known times."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        time.sleep(STEP)
        return (batch.past * self.weight).square().mean()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        time.sleep(PAUSE)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch


class Late(ShuffledBatches):
    def indices(self, number: int) -> Tensor:
        time.sleep(WAIT)
        return super().indices(number)


class SlowToSave(ModelCheckpoint):
    def on_save_checkpoint(self, *_: Any) -> None:
        time.sleep(PAUSE)


class Chatty(Callback):
    """Callback that spends time in the logger after every step."""

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: Any) -> None:
        assert isinstance(trainer.logger, Board)
        with trainer.logger.clock:
            time.sleep(STEP)


def run(speed: Speed, *extra: Callback, steps: int = WARM_UP_STEPS + MEASURED, **options: Any) -> dict[str, float]:
    trainer = lightning.Trainer(
        **{
            "accelerator": "cpu",
            "max_steps": steps,
            "val_check_interval": steps,
            "logger": False,
            "log_every_n_steps": 5,
            "enable_checkpointing": any(isinstance(callback, ModelCheckpoint) for callback in extra),
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "num_sanity_val_steps": 0,
            "check_val_every_n_epoch": None,
            "callbacks": [speed, *extra],
            **options,
        }
    )
    windows = make_windows()
    trainer.fit(Slow(), Late(windows, 16, 1, steps), EvaluationBatches(windows, 64))
    return speed.timings.figures()


def loop_seconds(figures: dict[str, float]) -> float:
    """Return the seconds of a measured step with its overhead."""
    return 16 / figures["train_windows_per_s"]


def test_figures_exclude_the_warm_up_steps() -> None:
    speed = Speed()
    figures = run(speed)
    assert len(speed.timings.step_ms) == MEASURED
    assert speed.timings.windows == 16 * MEASURED
    assert figures["step_ms_p95"] >= figures["step_ms_p50"] >= 1000 * STEP
    assert MEASURED * WAIT <= speed.timings.waited_seconds < speed.timings.training_seconds
    assert figures["data_wait_share"] == speed.timings.waited_seconds / speed.timings.training_seconds
    assert loop_seconds(figures) >= STEP + WAIT
    assert figures["fit_seconds"] >= (WARM_UP_STEPS + MEASURED) * (STEP + WAIT)
    assert figures["peak_memory_mib"] > 10
    assert math.isnan(figures["logging_share"])


def test_the_time_of_a_step_excludes_the_wait_for_its_batch() -> None:
    speed = Speed()
    run(speed)
    assert speed.timings.training_seconds >= sum(speed.timings.step_ms) / 1000 + speed.timings.waited_seconds


@advanced
def test_training_time_excludes_validations() -> None:
    figures = run(Speed(), val_check_interval=2)
    assert loop_seconds(figures) < STEP + WAIT + PAUSE / 3
    assert figures["fit_seconds"] > (WARM_UP_STEPS + MEASURED) / 2 * PAUSE


@advanced
def test_checkpoints_count_neither_as_data_wait_nor_as_training_time(tmp_path: Path) -> None:
    saving = SlowToSave(tmp_path, every_n_train_steps=2)
    figures = run(Speed(), saving)
    assert figures["fit_seconds"] > (WARM_UP_STEPS + MEASURED) / 2 * PAUSE
    assert loop_seconds(figures) < STEP + WAIT + PAUSE / 3
    assert figures["data_wait_share"] < 0.5


@advanced
def test_logging_is_excluded_from_training_time_and_reported(tmp_path: Path) -> None:
    figures = run(Speed(), Chatty(), logger=Board(str(tmp_path)))
    logged = (WARM_UP_STEPS + MEASURED) * STEP
    assert logged / figures["fit_seconds"] <= figures["logging_share"] < 0.7
    assert loop_seconds(figures) < STEP + WAIT + 0.8 * STEP


@advanced
def test_the_speed_curve_has_a_point_per_validation(tmp_path: Path) -> None:
    speed, board = Speed(), Board(str(tmp_path))
    run(speed, logger=board, val_check_interval=5)
    board.experiment.close()
    points = curve(tmp_path, "speed/train_windows_per_s")
    assert list(points) == [14, 19]  # the first validations are within the warm-up
    seconds = sum(80 / value for value in points.values())
    assert seconds == pytest.approx(speed.timings.training_seconds, rel=1e-3)


@advanced
def test_a_run_shorter_than_the_warm_up_has_no_speed() -> None:
    figures = run(Speed(), steps=2)
    for name in ("train_windows_per_s", "step_ms_p50", "step_ms_p95", "data_wait_share"):
        assert math.isnan(figures[name])
    assert figures["fit_seconds"] > 0


@advanced
def test_the_figures_of_a_resumed_run_cover_all_starts(tmp_path: Path) -> None:
    first = Speed()
    run(
        first,
        SlowToSave(tmp_path / "kept", filename="last", every_n_train_steps=WARM_UP_STEPS + 4),
        logger=Board(str(tmp_path)),
    )
    kept = torch.load(tmp_path / "kept" / "last.ckpt", weights_only=True)["callbacks"]["Speed"]
    assert len(kept["step_ms"]) == 4
    assert kept["fit_seconds"] < first.timings.fit_seconds
    second = Speed()
    second.load_state_dict(kept)
    figures = run(second, logger=Board(str(tmp_path)))
    assert len(second.timings.step_ms) == 4 + MEASURED
    assert second.timings.step_ms[:4] == kept["step_ms"].tolist()
    assert second.timings.windows == 16 * (4 + MEASURED)
    assert figures["fit_seconds"] > kept["fit_seconds"] + (WARM_UP_STEPS + MEASURED) * (STEP + WAIT)
    assert figures["peak_memory_mib"] >= kept["peak_memory_mib"]
    assert second.timings.logging_seconds >= kept["logging_seconds"] >= 0


@advanced
def test_the_load_covers_the_measured_steps_of_all_starts(tmp_path: Path) -> None:
    first, second = Speed(), Speed()
    run(first, SlowToSave(tmp_path, every_n_train_steps=5), val_check_interval=10)
    load = first.timings.load
    assert load.wall_seconds == pytest.approx(first.timings.training_seconds, rel=0.3)
    assert 0 < load.cpu_seconds < (WARM_UP_STEPS + MEASURED) * (STEP + WAIT)
    second.load_state_dict(first.state_dict())
    run(second)
    assert second.timings.load.wall_seconds > 1.5 * load.wall_seconds
    assert second.timings.load.wall_seconds == pytest.approx(second.timings.training_seconds, rel=0.3)


@advanced
def test_several_processes_make_the_load_unknown_also_after_a_start_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Speed(), Speed()
    run(first)
    assert first.timings.load.wall_seconds > 0
    second.load_state_dict(first.state_dict())
    monkeypatch.setattr(lightning.Trainer, "world_size", property(lambda trainer: 2))
    run(second)
    assert math.isnan(second.timings.load.wall_seconds)


def test_compile_time_is_summed_over_all_starts() -> None:
    first, second = Speed(), Speed()
    first.compiled = SimpleNamespace(seconds=2.0, recompiles=1)  # type: ignore[assignment]
    second.load_state_dict(first.state_dict())
    second.compiled = SimpleNamespace(seconds=3.0, recompiles=0)  # type: ignore[assignment]
    second.state_dict()  # as in a checkpoint
    second.compiled.recompiles = 2
    kept = second.state_dict()
    assert (kept["compile_seconds"], kept["recompiles"]) == (5.0, 3)
