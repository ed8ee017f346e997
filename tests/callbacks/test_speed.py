import math
import time
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor, nn

from forecast.callbacks.speed import WARM_UP_STEPS, Speed
from forecast.data.datamodule import EvaluationBatches
from forecast.data.order import ShuffledBatches
from forecast.data.windows import Batch
from tests.examples import make_windows

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated")

STEP, WAIT = 0.02, 0.005


class Slow(lightning.LightningModule):
    """A step of a known time on batches that take a known time to come."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        time.sleep(STEP)
        return (batch.past * self.weight).square().mean()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        time.sleep(10 * STEP)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch


class Late(ShuffledBatches):
    def __iter__(self) -> Any:
        for batch in super().__iter__():
            time.sleep(WAIT)
            yield batch


def run(steps: int, **options: Any) -> Speed:
    speed = Speed()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=None,
        callbacks=[speed],
        **options,
    )
    windows = make_windows()
    trainer.fit(Slow(), Late(windows, 16, 1, steps), EvaluationBatches(windows, 64))
    return speed


def test_figures_are_those_of_the_steps_after_the_warm_up() -> None:
    steps = WARM_UP_STEPS + 10
    speed = run(steps, val_check_interval=steps)
    figures = speed.figures()
    assert len(speed.step_seconds) == len(speed.wait_seconds) == steps
    assert figures["step_ms_p95"] >= figures["step_ms_p50"] >= 1000 * STEP
    assert 0 < figures["data_wait_share"] < 0.9
    measured = speed.step_seconds[WARM_UP_STEPS:] + speed.wait_seconds[WARM_UP_STEPS:]
    assert figures["train_windows_per_s"] == pytest.approx(16 * 10 / sum(measured))
    assert sum(speed.wait_seconds[WARM_UP_STEPS:]) >= 10 * WAIT
    assert figures["fit_seconds"] >= steps * (STEP + WAIT)
    assert figures["peak_memory_mib"] > 10


def test_a_validation_is_no_wait_for_data() -> None:
    speed = run(WARM_UP_STEPS + 6, val_check_interval=2)
    typical = sorted(speed.wait_seconds)[len(speed.wait_seconds) // 2]
    after_validation = speed.wait_seconds[2::2]
    assert sorted(after_validation)[len(after_validation) // 2] < typical + 5 * STEP


def test_a_run_within_the_warm_up_has_no_speed() -> None:
    figures = run(2, val_check_interval=2).figures()
    for name in ("train_windows_per_s", "step_ms_p50", "step_ms_p95", "data_wait_share"):
        assert math.isnan(figures[name])
    assert figures["fit_seconds"] > 0
