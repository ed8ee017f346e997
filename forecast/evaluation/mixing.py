"""The mixing weight of two forecasts that minimizes the error of their weighted mean, from one pass over them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.common.group import Group
from forecast.data.windows import Windows
from forecast.evaluation.metrics import Scores

MIXING_WEIGHTS = tuple(tenths / 10 for tenths in range(11))
"""Candidate weights of the encoder-decoder; finer ones would fit the noise of the validation part."""


def independent_blocks(windows: Windows) -> float:
    """Return the number of non-overlapping windows that the windows with a measured target amount to.

    Each counts for the share of a horizon h from its first target to the next window's: at most 1, and 1/h where
    windows are one step apart; the last counts as the least of them.
    """
    starts = windows.starts[_with_targets(windows)]
    if len(starts) < 2:
        return len(starts) / windows.horizon
    gaps = starts.diff()
    return float(torch.cat([gaps, gaps.min()[None]]).clamp(max=windows.horizon).sum()) / windows.horizon


def shrinkage(blocks: float, prior: float) -> float:
    """Return the shrinkage of the best weight: n / (n + prior), for n independent `blocks` of validation windows.

    This equals a ridge regression of the linear path's error on the difference of the two forecasts, with a penalty
    that weighs `prior` blocks. Here an optimum beyond 1 is first clipped to 1. A `prior` of 0 means no shrinkage.

    The test part differs from validation, and the encoder-decoder, whose step validation chose, loses most there. The
    default of 30 comes from stretches of twenty months of PJM East, each split as ETTh1 is
    (`benchmarks/studies/stretches.py`). At horizons 96 and 336, the best weight is 0.43 and 0.31 on validation, 0.30
    and 0.16 on the test part (means of eight). With the shrunk weight, the test MSE is 3.2 and 0.4 % below the linear
    path's; unshrunk, it is 1.6 % below and 1.2 % above. These stretches have 29 and 8 blocks; other numbers were not
    tested.
    """
    return blocks / (blocks + prior) if prior else 1.0


@dataclass
class MixingSums:
    """Sums of errors of every weighted mean in `MIXING_WEIGHTS`, in float64.

    Parameters
    ----------
    squared
        Shape (3,): sums of e², e d and d², with e the linear path's error and d the difference that the other forecast
        makes. The error of a weight w is e + w d.
    absolute
        Shape (11,): sums of |e + w d|, one for each weight.
    count
        Shape (): targets counted.
    shrinkage
        Above 0, up to 1: factor of the weights in `MIXING_WEIGHTS`.
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
        """Add a batch of both forecasts, (B, h, C) each; targets where `observed` is False are left out.

        Return each window's own means of e², e d and d², shape (B, 3), NaN where it has no target.
        """
        error, difference = linear - future, decoded - linear
        if observed is not None:
            error, difference = torch.where(observed, error, 0), torch.where(observed, difference, 0)
        self.absolute += torch.stack(
            [(error + self.shrinkage * weight * difference).abs().sum(dtype=torch.float64) for weight in MIXING_WEIGHTS]
        )
        exact = linear.double() - future.double()  # as every evaluation, so that a weight of 0 scores as the path does
        exact, difference = (exact if observed is None else torch.where(observed, exact, 0)), difference.double()
        products = torch.stack([exact.square(), exact * difference, difference.square()], -1).flatten(1, 2).sum(1)
        self.squared += products.sum(0)
        whole = torch.full((len(error),), error[0].numel(), device=error.device)
        counts = whole if observed is None else observed.sum((1, 2))
        self.count += counts.sum()
        return products / counts.to(products)[:, None]

    def over(self, group: Group) -> "MixingSums":
        """Return the sums over the windows of all processes, the same digits on each of them."""
        if group.size == 1:
            return self
        whole = group.total(torch.cat([self.squared, self.absolute, self.count[None]]))
        return MixingSums(whole[:3], whole[3:-1], whole[-1], self.shrinkage)

    @property
    def best_weight(self) -> float:
        """The weight with the least mean square error; of equal ones, the smallest."""
        return MIXING_WEIGHTS[self._best]

    @property
    def mixing_weight(self) -> float:
        """The weight of the encoder-decoder: the best one, shrunk."""
        return self.shrinkage * self.best_weight

    @property
    def weights(self) -> tuple[float, float, float]:
        """The coefficients of the means of e², e d and d² in the MSE at that weight."""
        return 1.0, 2 * self.mixing_weight, self.mixing_weight**2

    def scaled(self) -> Scores:
        """Return MSE and MAE of the z-scores at that weight."""
        mse = (self.squared @ self.squared.new_tensor(self.weights)) / self.count
        return {"mse": float(mse), "mae": float(self.absolute[self._best] / self.count)}

    @property
    def _best(self) -> int:
        weight = torch.tensor(MIXING_WEIGHTS, dtype=torch.float64, device=self.squared.device)
        own, both, other = self.squared
        return int((own + 2 * weight * both + weight.square() * other).argmin())


def percent(share: float) -> str:
    """Return a share in per cent; a positive one never prints as zero."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _with_targets(windows: Windows) -> Tensor:
    """Return whether each window has a measured target, shape (W,)."""
    if windows.observed is None:
        return torch.ones(len(windows), dtype=torch.bool, device=windows.starts.device)
    measured = windows.observed[:, : windows.num_targets].any(1).cumsum(0)
    before = windows.starts + windows.context_length - 1
    return measured[before + windows.horizon] > measured[before]
