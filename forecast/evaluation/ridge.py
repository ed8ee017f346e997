"""Ridge regression in closed form: a baseline of every result, and a possible start of the model's linear path."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import torch
from torch import Tensor

from forecast.data.known import NO_COVARIATES, KnownLayout
from forecast.data.windows import Batch, Windows
from forecast.evaluation.evaluate import evaluate

MAX_LOOK_BACK = 2048
"""Longest look-back of the linear map, in steps; the cost of the fit is quadratic in it."""

PENALTIES = torch.logspace(-8, 1, 19, dtype=torch.float64)
"""Candidate ridge penalties, relative to the mean diagonal of the Gram matrix."""

ROWS = 2048
"""About as many rows of the normal equations, a window of a series each, are multiplied together on a CPU.

With 512 windows of all series, the products leave a processor's cache: 21 series take 1.4 times as long, and 321 series
take several hundred MB of memory.
"""

FIT_OPERATIONS = 2e11
"""Maximum number of multiplications for the normal equations; beyond it, one of every n windows is used."""

WINDOW_OPERATIONS = 20_000
"""Multiplications that take as long as to cut out a window."""


@dataclass(frozen=True)
class LinearMap:
    """A linear map from context to horizon, both minus the context's mean.

    `weight` has shape (look_back, h), the oldest step first; (C, look_back, h) if each series has its own. `known` has
    each series' weights of the M known inputs that `layout` reads, shape (C, M, h); None: none are read.
    """

    weight: Tensor
    name: str
    known: Tensor | None = None
    layout: KnownLayout = NO_COVARIATES

    @property
    def look_back(self) -> int:
        """The number of context steps that the map reads."""
        return self.weight.shape[-2]

    def to(self, device: torch.device | str) -> Self:
        """Return the map on another device."""
        return replace(self, weight=self.weight.to(device), known=None if self.known is None else self.known.to(device))

    def __call__(self, batch: Batch) -> Tensor:
        """Return the forecast (B, h, C_out)."""
        past = batch.past[:, -self.look_back :, : batch.future.shape[2]]
        mean = past.mean(1, keepdim=True)
        weight = self.weight.to(past)
        forecast = torch.einsum("btc,th->bhc" if weight.dim() == 2 else "btc,cth->bhc", past - mean, weight) + mean
        if self.known is None:
            return forecast
        features = self.layout.features(batch.past_known, batch.future_known)
        return forecast + torch.einsum("bm,cmh->bhc", features, self.known.to(past))


@dataclass(frozen=True)
class Ridge(LinearMap):
    """A ridge map fitted on one of every `every` windows; `penalty` is relative to the Gram matrix's mean diagonal."""

    penalty: float = 0.0
    every: int = 1


@dataclass
class _NormalEquations:
    """X'X, X'Y and Y'Y over (window, series) rows, in float64, and the products with the known inputs K.

    `known` is K'K over windows (M, M), `mixed` X'K of each series (C, L, M), `known_cross` K'Y of each series
    (C, M, h); M is 0 without known covariates. Rows with missing targets are used as well (available cases): each
    step's products with Y are scaled to the number of rows. A row without any target is left out. With known
    covariates, a window without any target is left out, so that X'X, X'K and K'K are of the same windows.
    """

    gram: Tensor
    cross: Tensor
    energy: Tensor
    known: Tensor
    mixed: Tensor
    known_cross: Tensor
    layout: KnownLayout

    @classmethod
    def of(cls, windows: Windows, look_back: int) -> "_NormalEquations":
        layout, horizon, series = windows.layout, windows.horizon, windows.num_targets
        inputs = layout.num_features(horizon)
        shapes: list[tuple[int, ...]] = [(look_back, look_back), (look_back, horizon), (), (), (horizon,)]
        shapes += [(inputs, inputs), (series, look_back, inputs), (series, inputs, horizon), (series, 1, horizon)]
        gram, cross, energy, rows, targets, known, mixed, known_cross, series_targets = (
            torch.zeros(shape, dtype=torch.float64, device=windows.device) for shape in shapes
        )
        for batch in windows.batches(_windows_at_once(windows, inputs)):
            if inputs and batch.future_observed is not None:
                batch = _with_targets(batch)
            past = batch.past[:, -look_back:, : windows.num_targets]
            mean = past.mean(1, keepdim=True)
            centered, future = past - mean, batch.future - mean
            x = centered.transpose(1, 2).flatten(0, 1)  # (B C, look_back)
            y = future.transpose(1, 2).flatten(0, 1)  # (B C, h)
            if batch.future_observed is None:
                targets += len(x)
                series_targets += len(past)
            else:
                observed = batch.future_observed.transpose(1, 2).flatten(0, 1)
                usable = observed.any(1) | (inputs > 0)
                x, y, observed = x[usable], torch.where(observed, y, 0)[usable], observed[usable]
                future = torch.where(batch.future_observed, future, 0)
                targets += observed.sum(0)
                series_targets += batch.future_observed.sum(0).T[:, None]
            gram += (x.T @ x).double()
            cross += (x.T @ y).double()
            energy += y.double().square().sum()
            rows += len(x)
            if inputs:
                features = layout.features(batch.past_known, batch.future_known)  # (B, M)
                known += (features.T @ features).double()
                mixed += torch.einsum("btc,bm->ctm", centered, features).double()
                known_cross += torch.einsum("bm,bhc->cmh", features, future).double()
        cross = cross * (rows / targets.clamp(min=1))
        known_cross = known_cross * (rows / series / series_targets.clamp(min=1))
        return cls(gram, cross, energy, known, mixed, known_cross, layout)

    def without_known(self) -> "_NormalEquations":
        """Return the equations without known inputs."""
        none = self.known[:0, :0], self.mixed[..., :0], self.known_cross[:, :0]
        return _NormalEquations(self.gram, self.cross, self.energy, *none, NO_COVARIATES)

    def squared_error(self, fitted: LinearMap) -> float:
        """Return the sum of squared errors over the rows, all of whose targets must be measured."""
        weight = fitted.weight
        error = (weight * (self.gram @ weight)).sum() - 2 * (weight * self.cross).sum()
        if fitted.known is not None:
            both = self.mixed.transpose(1, 2) @ weight  # (C, M, h)
            error += (fitted.known * (2 * both + self.known @ fitted.known - 2 * self.known_cross)).sum()
        return float(error + self.energy)


def _windows_at_once(windows: Windows, inputs: int) -> int:
    """Return how many windows are multiplied together: on a CPU those of `ROWS`, at least 16 and at most 512.

    With known inputs there are 512: their products with the past of each series are large sums, added once a part.
    """
    most = 512
    return most if inputs or windows.device.type != "cpu" else min(most, max(16, ROWS // windows.num_targets))


def _with_targets(batch: Batch) -> Batch:
    """Return the windows of a batch with at least one measured target."""
    assert batch.future_observed is not None
    some = batch.future_observed.any(2).any(1)
    return Batch._make(None if part is None else part[some] for part in batch)


class _Solutions:
    """The ridge maps of all penalties, from one eigendecomposition of the past and one of the known inputs.

    The weights of the past are shared by all series, those of the known inputs are a series' own. The latter are
    eliminated: w solves (X'X - Σ B A⁻¹ B') w = X'Y - Σ B A⁻¹ K'Y, with A = K'K, B = X'K of a series, and the sums over
    the series; then v = A⁻¹ (K'Y - B' w). Each of X'X and A gets the penalty relative to its own mean diagonal.
    """

    def __init__(self, fitted: _NormalEquations) -> None:
        self.fitted = fitted
        self.unit = float(fitted.gram.diagonal().mean()) or 1.0
        if len(fitted.known):
            self.values, self.vectors = torch.linalg.eigh(fitted.known)
            self.mixed = fitted.mixed @ self.vectors  # (C, L, M)
            self.rotated = self.vectors.T @ fitted.known_cross  # (C, M, h)
        else:
            self.values, self.vectors = torch.linalg.eigh(fitted.gram)
            self.rotated = self.vectors.T @ fitted.cross

    def squared_errors(self, scored: _NormalEquations, done: Callable[[], None] = lambda: None) -> list[float]:
        """Return the sums of squared errors of all penalties on other rows, all of whose targets must be measured.

        Without known inputs, a weight is V d r, with the eigenvectors V, the inverse eigenvalues d and r = V'X'Y. Its
        squared error is then d' (V'GV * r r') d - 2 d' (r * V'C) 1 + the energy, with G and C those of the other rows:
        after two products of L³, a penalty takes L² operations instead of L² h.
        """
        if len(self.fitted.known):
            errors = []
            for penalty in PENALTIES.tolist():
                errors.append(scored.squared_error(self.fit(penalty)))
                done()
            return errors
        vectors = _without_constant(self.vectors)
        square = (vectors.T @ scored.gram @ vectors) * (self.rotated @ self.rotated.T)
        product_sum = (self.rotated * (vectors.T @ scored.cross)).sum(1)
        inverses = torch.stack([self._inverse(penalty) for penalty in PENALTIES.tolist()])  # (P, L)
        squares = ((inverses @ square) * inverses).sum(1) - 2 * inverses @ product_sum + scored.energy
        return squares.tolist()  # type: ignore[no-any-return]

    def _inverse(self, penalty: float) -> Tensor:
        """Return the inverses of the eigenvalues (L,) of the past with a penalty."""
        shifted: Tensor = self.values.clamp(min=0) + penalty * self.unit
        return shifted.reciprocal()

    def fit(self, penalty: float) -> LinearMap:
        """Return the map of one penalty, float64."""
        if not len(self.fitted.known):
            weight = self.vectors @ (self.rotated * self._inverse(penalty)[:, None])
            return LinearMap(_without_constant(weight), "ridge")
        scale = float(self.fitted.known.diagonal().mean()) or 1.0
        inverse = 1 / (self.values.clamp(min=0) + penalty * scale)  # (M,)
        scaled = self.mixed * inverse
        gram = self.fitted.gram - torch.einsum("clm,ckm->lk", scaled, self.mixed)
        gram.diagonal().add_(penalty * self.unit)
        cross = self.fitted.cross - (scaled @ self.rotated).sum(0)
        weight = _without_constant(torch.linalg.solve(gram, cross))
        known = self.vectors @ (inverse[:, None] * (self.rotated - self.mixed.transpose(1, 2) @ weight))
        return LinearMap(weight, "ridge", known, self.fitted.layout)


def _without_constant(weight: Tensor) -> Tensor:
    """Return the weights (L, h) without their mean: a centred context has no part along a constant, only rounding.

    With a small penalty this rounding can be as large as the weights, and a penalty is then chosen by it.
    """
    return weight - weight.mean(0)


def fit_ridge(train: Windows, validation: Windows, done: Callable[[], None] = lambda: None) -> Ridge:
    """Fit a linear map in closed form on `train`, with the penalty in `PENALTIES` that is best on `validation`.

    The look-back is the context length, at most `MAX_LOOK_BACK` steps. Each penalty is scored on every measured target
    of `validation`: through the normal equations, or directly in windows with missing targets. Known inputs are read
    only if the best map with them is better there than the best one without: the effect of a temperature changes its
    sign over the year, and a linear map of it can be worse than none. `done` is called after each penalty with them.

    References
    ----------
    Hoerl and Kennard, "Ridge regression", Technometrics 12 (1970).
    """
    return fit_and_score(train, validation, done=done)[0]


@torch.inference_mode()
def fit_and_score(
    train: Windows, validation: Windows, operations: float | None = None, done: Callable[[], None] = lambda: None
) -> tuple[Ridge, float]:
    """Return the ridge of `fit_ridge`, and the sum of its squared errors on `validation`.

    `operations` bounds the multiplications of the normal equations; None: `FIT_OPERATIONS`.
    """
    every, look_back = _thinning(train, FIT_OPERATIONS if operations is None else operations), _look_back(train)
    fitted = _NormalEquations.of(train.thinned(every), look_back)
    maps = [_Solutions(fitted), *([_Solutions(fitted.without_known())] if len(fitted.known) else [])]
    whole, partial = _split_by_gaps(validation)
    scored = _NormalEquations.of(whole, look_back)

    candidates = list(product(maps, PENALTIES.tolist()))
    errors = [error for solutions in maps for error in solutions.squared_errors(scored, done)]
    if len(partial):
        for place, (solutions, penalty) in enumerate(candidates):
            errors[place] += float(evaluate(solutions.fit(penalty), partial, 512).sums.squared.sum())
    best = errors.index(min(errors))
    return _ridge(*candidates[best], every), errors[best]


def _split_by_gaps(windows: Windows) -> tuple[Windows, Windows]:
    """Return the windows without missing targets, and the windows with some."""
    if windows.observed is None:
        return windows, replace(windows, starts=windows.starts[:0])
    absent = (~windows.observed[:, : windows.num_targets]).any(1)
    before = torch.cat(
        [absent.new_zeros(1, dtype=torch.int64), absent.cumsum(0)]
    )  # counts of incomplete rows before each row
    first = windows.starts.to(before.device) + windows.context_length
    whole = (before[first + windows.horizon] == before[first]).to(windows.starts.device)
    return replace(windows, starts=windows.starts[whole]), replace(windows, starts=windows.starts[~whole])


@torch.inference_mode()
def refit(train: Windows, ridge: Ridge) -> Ridge:
    """Fit the map of `ridge` on other windows, with the same penalty and inputs."""
    fitted = _NormalEquations.of(train, ridge.look_back)
    return _ridge(_Solutions(fitted if ridge.known is not None else fitted.without_known()), ridge.penalty, ridge.every)


def _thinning(train: Windows, most: float) -> int:
    """Return k such that the map is fitted on one of every k neighbouring windows."""
    look_back, layout = _look_back(train), train.layout
    inputs = layout.num_features(train.horizon)
    columns = look_back + inputs
    of_window = train.num_targets * look_back * (columns + train.horizon) + inputs * columns
    operations = len(train) * max(WINDOW_OPERATIONS, of_window)
    return max(1, round(operations / most))


def _look_back(windows: Windows) -> int:
    return min(windows.context_length, MAX_LOOK_BACK)


def _ridge(solutions: _Solutions, penalty: float, every: int) -> Ridge:
    fitted = solutions.fit(penalty)
    known = None if fitted.known is None else fitted.known.float()
    return Ridge(fitted.weight.float(), "ridge", known, fitted.layout, penalty, every)
