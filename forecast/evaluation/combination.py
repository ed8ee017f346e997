"""A combination of linear maps by little evidence: weights that are shrunk, and a poor forecast gets next to none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from torch import Tensor

from forecast.data.windows import Windows, thinned_places
from forecast.evaluation.holdout import Block, blocks
from forecast.evaluation.mixing import independent_blocks
from forecast.evaluation.ridge import LinearMap

PRIOR = 16
"""Number of independent blocks of windows at which the fitted weights count half.

Over 66 generated tables, short and of 27 kinds, the test MAE relative to that of the best baseline had a geometric mean
of 0.9937, 0.9931 and 0.9930 with 8, 16 and 32, where ridges fitted on the first 60 % of the training windows scored the
others.
"""

POWER, SOME = 3, 2
"""With many blocks, the prior weight of a member is its MSE to the power of -3; on the same tables 0.9947 with -2.

The power is half as large with two blocks, and 0 without any, since a single block compares errors of chance.
"""

LEAST_RATIO = 1e-4
"""Smallest ratio of MSEs that a prior weight distinguishes."""

LEAST_ERROR = 1e-4
"""Smallest MSE, z-scores, by which the errors of a series are divided: a constant series may jump later."""

LEAST_WEIGHT = 0.02
"""Smallest weight of a member; a member below it is left out."""

MAX_WINDOWS = 400
"""Maximum number of windows of a split that are scored."""


@dataclass(frozen=True)
class Members:
    """Maps to combine, and the products of their errors, by which weights are chosen.

    Products are means over steps, and over series in units of the MSE of each series' best member on training windows.

    Parameters
    ----------
    maps
        K maps fitted on the training split, with the same look-back.
    cross_fitted
        These maps for each part of the training windows, fitted on the others.
    trained
        Shape (K, K): products on the training windows, of the cross-fitted maps; of `maps` if there are no parts.
    trained_blocks
        Number of independent blocks of these windows; 0 without parts.
    windows
        Validation windows.
    products
        Shape (W, K, K): products of each of these windows; NaN if it has no target or is not scored.
    """

    maps: Sequence[LinearMap]
    cross_fitted: Sequence[Sequence[LinearMap]]
    trained: Tensor
    trained_blocks: float
    windows: Windows
    products: Tensor

    @classmethod
    def of(
        cls,
        maps: Sequence[LinearMap],
        validation: Windows,
        parts: Sequence[tuple[Sequence[LinearMap], Windows]],
    ) -> "Members":
        """Return the members with their products; `parts` are those of the training windows, with their maps."""
        scored, places = _thin(validation), thinned_places(len(validation), _every(validation))
        products = torch.full((len(validation), len(maps), len(maps)), torch.nan, dtype=torch.float64)
        on_validation = _products(maps, scored)
        trained = torch.cat([_products(own, _thin(part)) for own, part in parts]) if parts else on_validation
        by_series = trained.nanmean(0)  # (C, K, K)
        unit = by_series.diagonal(dim1=1, dim2=2).amin(1).clamp(min=LEAST_ERROR)[:, None, None]
        products[places] = (on_validation / unit).nanmean(1)
        blocks_of_parts = sum(independent_blocks(part) for _, part in parts)
        own = [maps for maps, _ in parts]
        return cls(maps, own, (by_series / unit).nanmean(0), blocks_of_parts, validation, products)

    def combined(self, block: Block | None = None) -> LinearMap:
        """Return the combination; its weights are chosen without the windows of `block`, if one is given."""
        windows, products = self.windows, self.products
        if block is not None:
            windows = replace(windows, starts=block.selecting(windows.starts))
            products = block.selecting(products)
        trained, validation = self.trained_blocks, independent_blocks(windows) if len(windows) else 0.0
        mean = self.trained
        if validation:
            mean = (trained * mean + validation * products.nanmean(0)) / (trained + validation)
        return mixture(self.maps, shrunk_weights(mean, trained + validation))

    def cross_fitted_mixtures(self) -> tuple[LinearMap, ...]:
        """Return the combination for each part of the training windows, with weights that validation alone chooses."""
        weights = shrunk_weights(self.products.nanmean(0), independent_blocks(self.windows))
        return tuple(mixture(maps, weights) for maps in self.cross_fitted)

    def held_out(self) -> tuple[LinearMap, ...]:
        """Return the combination without each block of validation.

        There is one, chosen by training windows alone, if the windows are too few for blocks.
        """
        return tuple(self.combined(block) for block in blocks(self.windows) or [whole(self.windows)])


def whole(windows: Windows) -> Block:
    """Return all windows as one block, without others that select for it."""
    return Block(range(len(windows)), range(0), range(len(windows), len(windows)))


def shrunk_weights(products: Tensor, num_blocks: float) -> Tensor:
    """Return weights (K,) that sum to 1, from the mean products (K, K) of the errors of K members.

    They are the best weights, shrunk towards a prior by which a member with a small error counts most, and the poorest
    nothing. Source: Diebold and Pauly, "The use of prior information in forecast combination", International Journal of
    Forecasting 6 (1990).
    """
    errors = products.diagonal().clamp(min=1e-12)
    power = POWER * num_blocks / (num_blocks + SOME)
    prior = (errors.min() / errors).clamp(min=LEAST_RATIO) ** power
    if (errors < errors.max()).any():
        prior = torch.where(errors < errors.max(), prior, 0)
    weights = num_blocks * best_weights(products) + PRIOR * prior / prior.sum()
    weights /= weights.sum()
    weights = torch.where(weights < LEAST_WEIGHT, 0, weights)
    return weights / weights.sum()


def best_weights(products: Tensor) -> Tensor:
    """Return the weights w ≥ 0, with sum 1, that minimize w' P w for the products P (K, K), by trying all subsets."""
    count = len(products)
    best, least = torch.full((count,), 1 / count, dtype=products.dtype), math.inf
    for size in range(1, count + 1):
        for subset in combinations(range(count), size):
            chosen = list(subset)
            part = products[chosen][:, chosen]
            part = part + 1e-6 * part.diagonal().mean() * torch.eye(size, dtype=part.dtype)  # members may be equal
            solved = torch.linalg.lstsq(part, torch.ones(size, 1, dtype=part.dtype)).solution[:, 0]
            if not solved.sum() > 0 or (solved < 0).any():
                continue
            weights = solved / solved.sum()
            if (error := float(weights @ part @ weights)) < least:
                best, least = torch.zeros(count, dtype=part.dtype), error
                best[chosen] = weights
    return best


def mixture(maps: Sequence[LinearMap], weights: Tensor) -> LinearMap:
    """Return the weighted mean of maps; its name says the weights. One with the whole weight is returned itself.

    The result is on the CPU, since fitted maps may be on another device than naive ones.
    """
    parts = sorted(zip(weights.tolist(), maps, strict=True), key=lambda part: -part[0])
    parts = [(weight, one) for weight, one in parts if weight]
    if len(parts) == 1:
        return parts[0][1]
    known = [(weight, one) for weight, one in parts if one.known is not None]
    total = sum((weight * one.weight.cpu() for weight, one in parts), torch.zeros(()))
    inputs = sum((weight * one.known.cpu() for weight, one in known if one.known is not None), torch.zeros(()))
    name = " + ".join(f"{100 * weight:.0f} % {one.name.removeprefix('the ')}" for weight, one in parts)
    return LinearMap(total, name, inputs, known[0][1].layout) if known else LinearMap(total, name)


def _thin(windows: Windows) -> Windows:
    return windows.thinned(_every(windows))


def _every(windows: Windows) -> int:
    """Return k such that one of every k windows is scored."""
    return max(1, math.ceil(len(windows) / MAX_WINDOWS))


def _products(maps: Sequence[LinearMap], windows: Windows) -> Tensor:
    """Return the mean products of the errors over measured steps, shape (W, C, K, K), NaN for a series without one."""
    parts = []
    for batch in windows.batches(64):
        errors = torch.stack([one(batch) - batch.future for one in maps]).double()
        counts = torch.full_like(errors[0, :, 0], windows.horizon)  # (B, C)
        if batch.future_observed is not None:
            errors = torch.where(batch.future_observed, errors, 0)
            counts = batch.future_observed.sum(1)
        parts.append((torch.einsum("kbhc,lbhc->bckl", errors, errors) / counts[..., None, None]).cpu())
    return torch.cat(parts)
