"""The mixing weight that minimizes the error of a weighted mean of two forecasts, from one pass over them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.common.group import Group
from forecast.data.windows import Windows
from forecast.evaluation.intervals import middle
from forecast.evaluation.metrics import ErrorSums, Scores, quantile_loss, windows_at_once

MIXING_WEIGHTS = tuple(tenths / 10 for tenths in range(11))
"""Candidate weights of the encoder-decoder; finer ones would fit the noise of the validation split."""


def independent_blocks(windows: Windows) -> float:
    """Return the effective number of non-overlapping windows, over the windows with a measured target.

    Each window counts the steps to the next one, divided by the horizon h: at most 1, and 1/h for windows one step
    apart. The last window counts as the smallest of them.
    """
    starts = windows.steps[windows.with_target.cpu()].unique_consecutive()
    if len(starts) < 2:
        return len(starts) / windows.horizon
    gaps = starts.diff()
    return float(torch.cat([gaps, gaps.min()[None]]).clamp(max=windows.horizon).sum()) / windows.horizon


def shrinkage(blocks: float, prior: float) -> float:
    """Return the factor n / (n + prior) that shrinks the best weight, for n independent `blocks` of validation windows.

    This equals a ridge regression of the linear path's error on the difference of the two forecasts, with a penalty
    that weighs `prior` blocks, except that an optimum above 1 is first clipped to 1. A `prior` of 0 means no shrinkage.

    The test split differs from validation, and the encoder-decoder loses most there, since validation selected its
    step. The default of 30 comes from twenty-month stretches of PJM East, split like ETTh1
    (`benchmarks/studies/stretches.py`). At horizons 96 and 336, the best weight is 0.43 and 0.31 on validation, 0.30
    and 0.16 on the test split (means of eight). With the shrunk weight, the test MSE is 3.2 and 0.4 % below the linear
    path's. Without shrinkage, it is 1.6 % below and 1.2 % above. These stretches have 29 and 8 blocks; other numbers
    were not tested.
    """
    return blocks / (blocks + prior) if prior else 1.0


@dataclass
class MixingSums:
    """Sums of the errors of each weighted mean in `MIXING_WEIGHTS`, float64.

    Parameters
    ----------
    squared
        Shape (3,): sums of e², e d and d². Here e is the linear path's error, and d is the other forecast minus the
        linear path's. A weight w has the error e + w d.
    absolute
        Shape (11,): sum of |e + w d| for each weight.
    count
        Shape (): number of targets.
    shrinkage
        Factor of the weights in `MIXING_WEIGHTS`, above 0 and at most 1.
    """

    squared: Tensor
    absolute: Tensor
    count: Tensor
    shrinkage: float

    @classmethod
    def zeros(cls, shrinkage: float, device: torch.device | str = "cpu") -> "MixingSums":
        """Return empty sums."""
        shapes: tuple[tuple[int, ...], ...] = ((3,), (len(MIXING_WEIGHTS),), ())
        squared, absolute, count = (torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes)
        return cls(squared, absolute, count, shrinkage)

    def update(self, decoded: Tensor, linear: Tensor, future: Tensor, observed: Tensor | None = None) -> Tensor:
        """Add a batch of both forecasts, (B, h, C) each; targets where `observed` is False are ignored.

        Return each window's means of e², e d and d², shape (B, 3), NaN for a window without a target.
        """
        size = windows_at_once(decoded)
        parts = [decoded.split(size), linear.split(size), future.split(size)]
        masks = [None] * len(parts[0]) if observed is None else observed.split(size)
        return torch.cat([self._add(*part) for part in zip(*parts, masks, strict=True)])

    def _add(self, decoded: Tensor, linear: Tensor, future: Tensor, observed: Tensor | None) -> Tensor:
        error, difference = linear - future, decoded - linear
        if observed is not None:
            error, difference = torch.where(observed, error, 0), torch.where(observed, difference, 0)
        self.absolute += torch.stack(
            [(error + self.shrinkage * weight * difference).abs().sum(dtype=torch.float64) for weight in MIXING_WEIGHTS]
        )
        exact = linear.double() - future.double()  # as in `evaluate`, so that a weight of 0 has the path's score
        exact, difference = (exact if observed is None else torch.where(observed, exact, 0)), difference.double()
        products = torch.stack([exact.square(), exact * difference, difference.square()], -1).flatten(1, 2).sum(1)
        self.squared += products.sum(0)
        whole = torch.full((len(error),), error[0].numel(), device=error.device)
        counts = whole if observed is None else observed.sum((1, 2))
        self.count += counts.sum()
        return products / counts.to(products)[:, None]

    def over(self, group: Group) -> "MixingSums":
        """Return the sums over the windows of all processes, bitwise equal on each of them."""
        whole = group.total(torch.cat([self.squared, self.absolute, self.count[None]]))
        return MixingSums(whole[:3], whole[3:-1], whole[-1], self.shrinkage)

    @property
    def best_weight(self) -> float:
        """The weight with the smallest mean squared error; the smallest weight if several are equal."""
        return MIXING_WEIGHTS[self._best]

    @property
    def mixing_weight(self) -> float:
        """The weight of the encoder-decoder: the best weight times the shrinkage."""
        return self.shrinkage * self.best_weight

    @property
    def weights(self) -> tuple[float, float, float]:
        """The coefficients of e², e d and d² in the MSE at the mixing weight."""
        return 1.0, 2 * self.mixing_weight, self.mixing_weight**2

    @property
    def selection_score(self) -> float:
        """The score that selects a training step: the MSE at the mixing weight."""
        return self.scaled()["mse"]

    def choose(self, numbers: Tensor) -> tuple[float, float]:
        """Return the mixing weight and the MSE of some windows, from the means of their e², e d and d² (3,)."""
        error, product, difference = numbers.tolist()
        weight = min(MIXING_WEIGHTS, key=lambda weight: error + 2 * weight * product + weight**2 * difference)
        mixing_weight = self.shrinkage * weight
        return mixing_weight, error + 2 * mixing_weight * product + mixing_weight**2 * difference

    def window_scores(self, numbers: Tensor, mixing_weight: float | None) -> Tensor:
        """Return the MSE (n,) of windows with the numbers (n, 3) at a mixing weight."""
        assert mixing_weight is not None
        return numbers @ numbers.new_tensor([1.0, 2 * mixing_weight, mixing_weight**2])

    def scaled_at(self, mixing_weight: float) -> Scores:
        """Return MSE and MAE of the z-scores at the mixing weight of a candidate."""
        weights = self.squared.new_tensor([1.0, 2 * mixing_weight, mixing_weight**2])
        place = round(10 * mixing_weight / self.shrinkage)
        return {"mse": float(self.squared @ weights / self.count), "mae": float(self.absolute[place] / self.count)}

    def scaled(self) -> Scores:
        """Return MSE and MAE of the z-scores at the mixing weight."""
        mse = (self.squared @ self.squared.new_tensor(self.weights)) / self.count
        return {"mse": float(mse), "mae": float(self.absolute[self._best] / self.count)}

    @property
    def _best(self) -> int:
        weight = torch.tensor(MIXING_WEIGHTS, dtype=torch.float64, device=self.squared.device)
        error, product, difference = self.squared
        return int((error + 2 * weight * product + weight.square() * difference).argmin())


@dataclass
class QuantileSums:
    """Sums of the quantile loss of a model of quantiles, and of the errors of its median, float64.

    Parameters
    ----------
    levels
        The K levels.
    losses
        Sum of the quantile loss over the targets, shape (11,) for each weight in `MIXING_WEIGHTS` if the forecast is a
        weighted mean, else (1,).
    count
        Shape (): number of targets.
    median
        Errors of the median; of both medians for a weighted mean.
    """

    levels: Tensor
    losses: Tensor
    count: Tensor
    median: ErrorSums | MixingSums

    @classmethod
    def zeros(cls, levels: Sequence[float], median: ErrorSums | MixingSums, device: torch.device) -> "QuantileSums":
        """Return empty sums; `median` are those of the median."""
        candidates = len(MIXING_WEIGHTS) if isinstance(median, MixingSums) else 1
        losses = torch.zeros(candidates, dtype=torch.float64, device=device)
        return cls(torch.tensor(levels, device=device), losses, losses.new_zeros(()), median)

    def update(self, forecasts: Sequence[Tensor], future: Tensor, observed: Tensor | None = None) -> Tensor:
        """Add a batch of quantiles (B, h, C, K): of the model, or of encoder-decoder and linear path.

        Return each window's mean loss at each candidate weight, (B, 11) or (B, 1), NaN for a window without a target.
        """
        seen = torch.ones_like(future, dtype=torch.bool) if observed is None else observed
        future = torch.where(seen, future, 0)
        medians = [middle(forecast) for forecast in forecasts]
        if isinstance(self.median, MixingSums):
            self.median.update(medians[0], medians[1], future, observed)
        else:
            self.median.update(medians[0], future, observed)
        windows = windows_at_once(forecasts[0], everywhere=True)  # mixtures of all windows need much memory
        parts = zip(*(tensor.split(windows) for tensor in (seen, future, *forecasts)), strict=True)
        losses = torch.cat([self._losses(*part) for part in parts])  # (B, candidates)
        counts = seen.sum((1, 2))
        self.losses += losses.sum(0)
        self.count += counts.sum()
        return losses / counts[:, None]

    def _losses(self, seen: Tensor, future: Tensor, *forecasts: Tensor) -> Tensor:
        """Return each window's sum of losses at each candidate weight, (B, candidates), float64."""
        return torch.stack(
            [
                torch.where(seen, quantile_loss(mixed, future, self.levels), 0).sum((1, 2), dtype=torch.float64)
                for mixed in self._candidates(forecasts)
            ],
            1,
        )

    def _candidates(self, forecasts: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the forecast of each candidate weight."""
        if len(forecasts) == 1:
            yield forecasts[0]
            return
        decoded, linear = forecasts
        for weight in MIXING_WEIGHTS:
            yield (1 - weight) * linear + weight * decoded

    def over(self, group: Group) -> "QuantileSums":
        """Return the sums over the windows of all processes, bitwise equal on each of them."""
        whole = group.total(torch.cat([self.losses, self.count[None]]))
        return QuantileSums(self.levels, whole[:-1], whole[-1], self.median.over(group))

    @property
    def mixing_weight(self) -> float | None:
        """The weight of the encoder-decoder: the best weight times the shrinkage; None if there is none."""
        return self.choose(self.losses / self.count)[0]

    @property
    def selection_score(self) -> float:
        """The score that selects a training step: the mean quantile loss at the mixing weight."""
        return self.choose(self.losses / self.count)[1]

    def choose(self, numbers: Tensor) -> tuple[float | None, float]:
        """Return the mixing weight and the loss of some windows, from the means of their losses at each candidate."""
        if len(numbers) == 1:
            return None, float(numbers[0])
        assert isinstance(self.median, MixingSums)
        mixing_weight = self.median.shrinkage * MIXING_WEIGHTS[int(numbers.argmin())]
        return mixing_weight, float(self.window_scores(numbers[None], mixing_weight)[0])

    def window_scores(self, numbers: Tensor, mixing_weight: float | None) -> Tensor:
        """Return the loss (n,) of windows with the numbers (n, 11) or (n, 1) at a mixing weight.

        Between two candidates it is interpolated linearly, which is at least the loss, a convex function of the weight.
        """
        if mixing_weight is None:
            return numbers[:, 0]
        place = min(int(mixing_weight * 10 + 1e-9), len(MIXING_WEIGHTS) - 2)
        part = 10 * mixing_weight - place
        return (1 - part) * numbers[:, place] + part * numbers[:, place + 1]

    def scaled(self) -> Scores:
        """Return the mean quantile loss at the mixing weight, and MSE and MAE of the median there."""
        mixing_weight, loss = self.choose(self.losses / self.count)
        point = (
            self.median.scaled() if isinstance(self.median, ErrorSums) else self.median.scaled_at(mixing_weight or 0.0)
        )
        return {**point, "quantile_loss": loss}


def percent(share: float) -> str:
    """Format a share in per cent; a positive share is never formatted as zero."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"
