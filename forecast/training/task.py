"""The Lightning module of a training: loss, validation scores and optimizer. The network is built elsewhere."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import lightning
import numpy as np
import torch
from lightning.pytorch.utilities.types import LRSchedulerConfigType, OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from forecast.common.errors import InputError
from forecast.common.finite import READ_EVERY, FiniteGuard
from forecast.common.group import ALONE
from forecast.common.timing import Stopwatch
from forecast.data.windows import Batch
from forecast.evaluation.metrics import ErrorSums, loss_by_name
from forecast.evaluation.mixing import MixingSums, QuantileSums
from forecast.evaluation.significance import WindowErrors
from forecast.model.compiling import CompiledForward
from forecast.model.informer import Informer
from forecast.training.schedule import with_length

SEED_STRIDE = 1_000_003
"""Distance between the step seeds of two runs: step n of one must not equal step n + 1 of the other."""


class ForecastTask(lightning.LightningModule):
    """Training of `network` on batches of windows.

    Parameters
    ----------
    loss
        The name of a loss.
    make_optimizer, make_scheduler
        Functions from parameter groups to an optimizer, and from an optimizer and the number of steps to a scheduler.
    max_grad_norm
        Gradients are clipped to this norm; None: no clipping.
    linear_path_rate
        Learning rate of the linear path, relative to the optimizer's; 0 freezes the linear path.
    total_steps
        Steps of the whole run.
    shrinkage
        Factor of the best mixing weight (`forecast.evaluation.mixing.shrinkage`).
    seed
        Determines, with the step and the rank of the process, all randomness of a step.
    frozen
        Parts of the network that training does not change, by the names of its modules. They have no dropout.

    Attributes
    ----------
    group, compiled
        The processes that share each batch, and the compiled network (None: not compiled). Both are set before a fit.
    arithmetic
        Host time of forward, backward, clipping and update of the training steps. It is meaningless on a GPU.
    window_scores, window_numbers
        MSE, or quantile loss, of each window of the last validation, shape (n,), in time order, and the numbers (n, K)
        from which `sums` computes it at any mixing weight. Both are NaN for a window without a target.
    """

    def __init__(
        self,
        network: Informer,
        *,
        loss: str,
        make_optimizer: Callable[..., Optimizer],
        make_scheduler: Callable[..., LRScheduler],
        max_grad_norm: float | None,
        linear_path_rate: float,
        total_steps: int,
        shrinkage: float,
        seed: int,
        frozen: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.network = network
        self.loss = loss_by_name(loss, network.levels)
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.max_grad_norm = max_grad_norm
        self.linear_path_rate = linear_path_rate
        self.total_steps = total_steps
        self.shrinkage = shrinkage
        self.seed = seed
        self.group = ALONE
        self.compiled: CompiledForward | None = None
        self.guard = FiniteGuard()
        self.sums: ErrorSums | MixingSums | QuantileSums | None = None
        self.window_errors = WindowErrors()
        if network.linear_path is not None:
            network.linear_path.requires_grad_(linear_path_rate > 0)
        self.frozen = freeze(network, frozen)
        self.window_scores = torch.empty(0, dtype=torch.float64)
        self.window_numbers = torch.empty(0, 1, dtype=torch.float64)
        self.arithmetic = Stopwatch()
        self._last_loss: Tensor | None = None
        self._last_norm: Tensor | None = None
        self._rates: dict[str, float] = {}
        self._update_began = 0.0
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Set the mode; frozen parts stay in evaluation mode."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self

    def forward(self, batch: Batch) -> Tensor:
        """Return the forecast of a batch, shape (B, h, C_out)."""
        forecast: Tensor = self.network(*_inputs(batch))
        return forecast

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step, so that its randomness depends only on the seed, the step and the rank."""
        seed = step_seed(self.seed, self.global_step, self.group.rank)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed checks all device types, which takes milliseconds
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of this process's windows, weighted so that the mean over the processes is the batch loss."""
        with self.arithmetic:
            loss = self.training_loss(batch)
        if self.group.size > 1 and batch.future_observed is not None:
            loss = loss * self._relative_count(batch.future_observed.sum())
        self._last_loss = loss.detach()
        return loss

    def backward(self, loss: Tensor, *arguments: Any, **options: Any) -> None:
        """Compute the gradients."""
        with self.arithmetic:
            super().backward(loss, *arguments, **options)

    def training_loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch: the sum over the forecasts that the network trains separately."""
        forecasts = (self.network.learners if self.compiled is None else self.compiled)(*_inputs(batch))
        losses = [self.loss(forecast, batch.future, batch.future_observed) for forecast in forecasts]
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def configure_gradient_clipping(self, optimizer: Optimizer, *_: Any, **__: Any) -> None:
        """Clip the gradients, and raise an error if the loss or a gradient is not finite.

        Lightning's own clipping refuses a fused optimizer under bf16-mixed.
        """
        limit = float("inf") if self.max_grad_norm is None else self.max_grad_norm
        with self.arithmetic:
            norm = self._last_norm = clip_grad_norm_(self.network.parameters(), limit)
        assert self._last_loss is not None
        self.guard.check(self._last_loss, norm, self.network.parameters(), self.global_step)
        self._rates = {str(group.get("name", "model")): float(group["lr"]) for group in optimizer.param_groups}
        self._update_began = time.perf_counter()

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Log loss, gradient norm and learning rates; after the last step, stop with a validation.

        The host waits for an accelerator here alone: what is logged is read together with the flag of the guard.
        """
        if self.global_step >= self.total_steps:
            self.trainer.should_stop = True
        every: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if self.global_step % every and not self.trainer.should_stop:  # self.log is slow
            if self.global_step % READ_EVERY == 0:
                self.guard.read()
            return
        assert self._last_loss is not None
        assert self._last_norm is not None
        loss = self._last_loss if self.group.size == 1 else self.group.summed(self._last_loss) / self.group.size
        loss, norm = self.guard.read(loss, self._last_norm)
        self.log("train/loss", loss, batch_size=len(batch.origin))
        self.log("train/gradient_norm", norm, batch_size=len(batch.origin))
        for name, rate in self._rates.items():  # tensors on the CPU: a number would be copied to the device
            self.log(f"train/learning_rate/{name}", torch.tensor(rate, device="cpu"), batch_size=len(batch.origin))

    def on_validation_epoch_start(self) -> None:
        """Reset the error sums."""
        self.guard.read()
        self.sums, self.window_errors = None, WindowErrors()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch to the error sums, in float32 for every training precision."""
        truth = batch.future, batch.future_observed
        if self.sums is None:
            self.sums = self._no_sums(*batch.future.shape[1:])
        with torch.autocast(self.device.type, enabled=False):
            if isinstance(self.sums, QuantileSums):
                numbers = self.sums.update(self._quantiles(batch), *truth)
            elif isinstance(self.sums, MixingSums):
                numbers = self.sums.update(*self.network.forward_apart(*_inputs(batch)), *truth)
            else:
                numbers = self.sums.update(self(batch), *truth)[0][:, None]
        self.window_errors.add(numbers)

    def on_validation_epoch_end(self) -> None:
        """Log the scores over all validation windows, and set the mixing weight."""
        assert self.sums is not None
        self.sums = self.sums.over(self.group)
        mixing_weight = None if isinstance(self.sums, ErrorSums) else self.sums.mixing_weight
        if mixing_weight is not None:
            self.network.combination.mixing_weight.fill_(mixing_weight)  # type: ignore[operator]
            self.log("val/mixing_weight", mixing_weight, sync_dist=True)
        self.window_numbers = self.window_errors.numbers(self.group)
        if isinstance(self.sums, QuantileSums):
            self.window_scores = self.sums.window_scores(self.window_numbers, mixing_weight)
        else:
            weights = self.sums.weights if isinstance(self.sums, MixingSums) else (1.0,)
            self.window_scores = self.window_errors.mse(weights, self.group)
        scores = self.sums.scaled()
        if "quantile_loss" in scores:
            self.log("val/quantile_loss", scores["quantile_loss"], prog_bar=True, sync_dist=True)
        self.log("val/mse", scores["mse"], prog_bar=True, sync_dist=True)  # already equal on all processes
        self.log("val/mae", scores["mae"], sync_dist=True)
        self.log("val/selection", self.sums.selection_score, sync_dist=True)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Return the optimizer and a learning rate schedule that advances every step."""
        optimizer, scheduler = self.make_optimizers(self.network)
        optimizer.register_step_post_hook(self._note_update)  # the step runs both passes first
        schedule: LRSchedulerConfigType = {"scheduler": scheduler, "interval": "step", "name": "train/learning_rate"}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def make_optimizers(self, network: Informer) -> tuple[Optimizer, LRScheduler]:
        """Return the optimizer and the schedule for `network`, a network of the same architecture."""
        path = [] if network.linear_path is None else list(network.linear_path.parameters())
        others = [weight for weight in network.parameters() if not any(weight is other for other in path)]
        named = (("model", others), ("linear_path", path))
        groups = [{"params": weights, "name": name} for name, weights in named if weights]
        optimizer = _make("optimizer", self.make_optimizer, groups)
        if path:
            optimizer.param_groups[1]["lr"] *= self.linear_path_rate
        return optimizer, _make("scheduler", with_length(self.make_scheduler, self.total_steps), optimizer)

    def _no_sums(self, horizon: int, num_targets: int) -> ErrorSums | MixingSums | QuantileSums:
        point: ErrorSums | MixingSums = ErrorSums.zeros(horizon, num_targets, self.device)
        if self.network.is_weighted:
            point = MixingSums.zeros(self.shrinkage, self.device)
        return QuantileSums.zeros(self.network.levels, point, self.device) if self.network.levels else point

    def _quantiles(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the quantiles (B, h, C_out, K) of encoder-decoder and linear path, or of the whole model."""
        if self.network.is_weighted:
            return self.network.forward_apart(*_inputs(batch))
        return (self.network.forward_quantiles(*_inputs(batch)),)

    def _note_update(self, *_: Any) -> None:
        now = time.perf_counter()
        self.arithmetic.seconds += now - self._update_began
        self._update_began = now  # torch calls this twice if a step calls its superclass

    def _relative_count(self, observed: Tensor) -> Tensor:
        """Return the number of observed targets of this process, relative to the mean over all processes."""
        return observed * self.group.size / self.group.summed(observed).clamp(min=1)


def freeze(network: Informer, names: Sequence[str]) -> list[nn.Module]:
    """Fix the weights of parts of a network, and return these modules."""
    modules = dict(network.named_modules())
    parts = [name for name, module in network.named_children() if any(True for _ in module.parameters())]
    for name in names:
        if name not in modules or not any(True for _ in modules[name].parameters()):
            raise InputError(f"freeze={name}: the network has no such part: choose from {', '.join(parts)}")
        modules[name].requires_grad_(False)
    if not any(weight.requires_grad for weight in network.parameters()):
        raise InputError(f"freeze={','.join(names)}: nothing is left to train: leave out one part")
    return [modules[name] for name in names]


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    return batch.past, batch.past_known, batch.future_known, batch.past_observed


def step_seed(seed: int, step: int, rank: int) -> int:
    """Return the random seed of a step (dropout, sampling), different on each process."""
    first = seed * SEED_STRIDE + step
    return first if rank == 0 else int(np.random.SeedSequence([first, rank]).generate_state(1)[0])


def _make(group: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """Call a constructor of torch; report its errors as errors in the user's options."""
    try:
        return make(*arguments)
    except (TypeError, ValueError, ArithmeticError) as error:
        options = ", ".join(f"{key}={value}" for key, value in getattr(make, "keywords", {}).items())
        raise InputError(f"{group} with {options}: {error}") from None
