"""The mixing weight of two forecasts, whose weighted mean errs least, from one pass over them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from forecast.common.group import Group
from forecast.data.windows import Windows
from forecast.evaluation.metrics import Scores

MIXING_WEIGHTS = tuple(tenths / 10 for tenths in range(11))
"""Weights of the encoder-decoder that are tried; finer ones would fit the noise of the validation part."""


def independent_blocks(windows: Windows) -> float:
    """Return what the windows with a measured target come to in windows that share none, as many as fit side by side.

    Each counts for the part of a horizon h from its first target to the next window's, 1 at the most and 1/h where
    windows follow one another; the last counts as the least of them.
    """
    starts = windows.starts[_with_targets(windows)]
    if len(starts) < 2:
        return len(starts) / windows.horizon
    gaps = starts.diff()
    return float(torch.cat([gaps, gaps.min()[None]]).clamp(max=windows.horizon).sum()) / windows.horizon


def shrinkage(blocks: float, prior: float) -> float:
    """Return the part of the best weight that is taken: n / (n + prior), n independent blocks of windows.

    A ridge regression of the linear path's error on the difference of the two forecasts, with a penalty that weighs as
    much as `prior` blocks, shrinks an optimum by that; here an optimum beyond 1 is 1 before it is shrunk.

    What comes after validation differs from it in its own way, and the encoder-decoder, whose step validation chose,
    loses most. The default of 30 was settled on stretches of twenty months of PJM East, each split as ETTh1 is. There
    the best weight is 0.43 on validation at horizon 96 and 0.31 at 336, on the test part 0.30 and 0.16 (means of
    eight). With the shrunk weight the test MSE is 3.2 and 0.4 % below the linear path's, with the whole of it 1.6 %
    below and 1.2 % above (`benchmarks/studies/stretches.py`). These stretches have 29 and 8 blocks: the rule between
    and beyond them was not tested.

    Parameters
    ----------
    blocks
        Of the validation part.
    prior
        That the linear path counts for by itself; 0: all is taken.
    """
    return blocks / (blocks + prior) if prior else 1.0


@dataclass
class MixingSums:
    """Sums of errors of every weighted mean in `MIXING_WEIGHTS`, in float64.

    Parameters
    ----------
    squared
        Shape (3,): of the linear path's error e, and of the difference d that the other forecast makes: sums of
        e², e d and d². The error of a weight w is e + w d.
    absolute
        Shape (11,): sums of |e + w d|, one for each weight.
    count
        Shape (): targets counted.
    shrinkage
        Above 0, up to 1: the weights w are this part of those in `MIXING_WEIGHTS`.
    """

    squared: Tensor
    absolute: Tensor
    count: Tensor
    shrinkage: float

    @classmethod
    def zeros(cls, shrinkage: float, device: torch.device | str = "cpu") -> "MixingSums":
        """Return sums over nothing."""
        shapes: tuple[tuple[int, ...], ...] = ((3,), (len(MIXING_WEIGHTS),), ())
        squared, absolute, count = (torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes)
        return cls(squared, absolute, count, shrinkage)

    def update(self, decoded: Tensor, linear: Tensor, future: Tensor, observed: Tensor | None = None) -> Tensor:
        """Add a batch of both forecasts, (B, h, C) each; targets where `observed` is False are left out.

        Gives each window's own means of e², e d and d², shape (B, 3), NaN where it has no target.
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
        """The weight with the least mean square error, of equal ones the smallest."""
        return MIXING_WEIGHTS[self._best]

    @property
    def mixing_weight(self) -> float:
        """The weight of the encoder-decoder: the best one, shrunk."""
        return self.shrinkage * self.best_weight

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of the means of e², e d and d² in the MSE at that weight."""
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
    """Return a share as it is printed; one that is there never as none."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _with_targets(windows: Windows) -> Tensor:
    """Say of each window whether a target of it was measured, shape (W,)."""
    if windows.observed is None:
        return torch.ones(len(windows), dtype=torch.bool, device=windows.starts.device)
    measured = windows.observed[:, : windows.num_targets].any(1).cumsum(0)
    before = windows.starts + windows.context_length - 1
    return measured[before + windows.horizon] > measured[before]
