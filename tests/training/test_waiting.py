"""A training step waits for its device only where the flag of the finite guard is read, every few steps."""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers.logger import DummyLogger
from torch.utils._python_dispatch import TorchDispatchMode

from forecast.common import finite
from forecast.data.sources import load_source
from forecast.runs.settings import Settings
from forecast.training.fit import fit
from forecast.training.prepare import prepare
from tests.support.small import hourly, quick, write

aten = torch.ops.aten
READS = {
    *(aten._local_scalar_dense, aten.is_nonzero, aten.nonzero, aten.equal, aten.masked_select, aten._unique2),
    aten.lift_fresh,  # torch.tensor of numbers of Python: on a GPU a copy that waits
}
FIRST, LAST, EVERY = 5, 55, 10


class Reads(TorchDispatchMode):
    """Collects the operations that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        indices = args[1] if function.overloadpacket in (aten.index, aten.index_put, aten.index_put_) else ()
        if function.overloadpacket in READS or any(x is not None and x.dtype == torch.bool for x in indices):
            self.found.append(str(function))
        return function(*args, **(kwargs or {}))


class Watch(Callback):
    """Calls `begin` at a step from `FIRST` to `LAST`, and `end` before the numbers of a step are read."""

    def __init__(self, begin: Any, end: Any) -> None:
        self.begin, self.end, self.active, self.steps = begin, end, False, 0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if FIRST <= trainer.global_step < LAST:
            self.steps += 1
            if not self.active:
                self.begin()
            self.active = True

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        step = trainer.global_step
        if step % EVERY == 0 or step >= LAST:  # Lightning calls the module after the callbacks
            self.stop()

    def on_validation_start(self, *_: Any) -> None:
        self.stop()

    def stop(self) -> None:
        if self.active:
            self.end()
        self.active = False


def train(folder: Path, watch: Watch, *words: str) -> None:
    table = hourly()
    table.loc[100:110, "load"] = float("nan")
    path = write(folder / "hours.csv", table)
    data = ["data=csv", f"data.path={path}", "data.past_covariates=[air]", "data.missing=mask"]
    length = ["training.max_steps=60", f"trainer.log_every_n_steps={EVERY}", "training.evaluation_stride=12"]
    settings = Settings.parse(quick(folder, *data, *length, *words))
    prepared = prepare(settings, load_source(settings.data))
    prepared.callbacks.append(watch)
    fit(prepared, folder / "checkpoints", [DummyLogger()])
    assert watch.steps == LAST - FIRST


@pytest.mark.parametrize("loss", ["mse", pytest.param("quantile", marks=pytest.mark.exhaustive)])
def test_fifty_steps_read_a_number_only_with_the_flag(
    loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finite, "READ_AT_ONCE", set())  # the code of an accelerator
    reads = Reads()
    train(tmp_path, Watch(reads.__enter__, lambda: reads.__exit__(None, None, None)), f"loss={loss}")
    assert reads.found == []


@pytest.mark.gpu
@pytest.mark.parametrize("loss", ["mse", "quantile"])
@pytest.mark.parametrize(
    ("precision", "graphs"), [("32-true", "false"), ("bf16-mixed", "false"), ("bf16-mixed", "true")]
)
def test_on_a_gpu_fifty_steps_wait_only_with_the_flag(loss: str, precision: str, graphs: str, tmp_path: Path) -> None:
    watch = Watch(lambda: torch.cuda.set_sync_debug_mode("error"), lambda: torch.cuda.set_sync_debug_mode("default"))
    words = ["trainer.accelerator=gpu", f"training.precision={precision}", f"training.compile={graphs}", f"loss={loss}"]
    try:
        train(tmp_path, watch, *words)
    finally:
        torch.cuda.set_sync_debug_mode("default")
