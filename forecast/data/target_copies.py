"""Known covariates that contain the answer: a target, a target moved in time, or parts that make up a target."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import fft

from forecast.common.errors import InputError
from forecast.tables.roles import KNOWN, PAST

CANDIDATES = 8
"""Number of shifts at which two columns are compared in full, besides 0."""

LEAST_COMPARED = 30
"""Least number of rows that a moved column and the target share."""

LEAST_CHANGES = 10
"""Least number of steps at which each column must change: a few changes can be alike by chance."""

MOST_COMPARED = 2**15
"""Largest number of rows in which a column is compared with the targets."""

SAME = 0.999
"""Correlation of the changes of two columns from which one counts as a copy of the other."""

ALIKE = 0.95
"""Correlation of measured changes from which two columns are compared in full: a rough one, on all rows at once."""

LARGE = 8.0
"""A change is limited to so many times the median change: one spike must not decide."""

AT_ONCE = 2**20
"""Largest number of products of spectra that are in memory together."""

MOST_FITTED = 2048
"""Largest number of rows from which the parts of a target are found."""

MOST_TOGETHER = 128
"""Largest number of columns, each step of a column counted, that are fitted to a target together."""

MOST_PARTS = 16
"""Largest number of parts that are found among more columns than `MOST_TOGETHER`."""

FEW = 32
"""Number of columns up to which parts are also sought with other columns, and moved in time."""

PART = 0.01
"""Standard deviation of a part's changes, as a share of that of the target's, from which it is named."""

SHARE = 0.01
"""Part of all changes that is added to those of an overlap: few changes that are alike by chance do not come first."""


def check_copies(known: pd.DataFrame, targets: pd.DataFrame, horizon: int) -> None:
    """Raise InputError for a known covariate that is a target, as it is, early, or fewer than `horizon` steps late.

    The future of such a column would contain the answer. The changes of two columns from step to step are compared,
    unmoved and at the `CANDIDATES` shifts where they are most alike. A correlation of `SAME` makes a copy. A value
    that was not measured is NaN, and changes that touch it do not count. A column that is the target `horizon` or more
    steps before is allowed. Of a long table the last `MOST_COMPARED` rows are compared. A copy with noise, a curved
    function of the target, or a column with fewer than `LEAST_CHANGES` changes is not found.
    """
    known, targets = known.iloc[-MOST_COMPARED:], targets.iloc[-MOST_COMPARED:]
    size = len(known)
    if size <= LEAST_COMPARED:
        return
    shifts = np.arange(LEAST_COMPARED - size, min(horizon, size - LEAST_COMPARED))  # known at t is target at t - shift
    names, columns = list(known.columns), np.diff(known.to_numpy(np.float64), axis=0).T
    spectra = Spectra.of(columns)
    for target in targets.columns:
        other = np.diff(targets[target].to_numpy(np.float64))
        for place, shift in _candidates(spectra, Spectra.of(other[None]), shifts):
            if _is_copy(columns[place], other, shift):
                raise InputError(
                    f"{KNOWN}: column {names[place]!r} is the target {target!r}{_moved(shift)}, so its "
                    f"future contains the answer: leave it out, or name it in {PAST}"
                )


@dataclass(frozen=True)
class Spectra:
    """Spectra of the changes of columns, the sum of their squares before each place, (C, N), and the shares measured.

    The changes are limited and centered. A column without two different changes is all 0.
    """

    values: np.ndarray
    squares: np.ndarray
    measured: np.ndarray

    @classmethod
    def of(cls, changes: np.ndarray) -> "Spectra":
        """Return the spectra of changes (C, N), NaN where one was not measured."""
        present = np.isfinite(changes)
        centered = np.zeros(changes.shape)
        for row, column, seen in zip(centered, changes, present, strict=True):
            limited = _limited(column[seen])
            if limited.size and np.ptp(limited) > 0:
                row[seen] = limited - limited.mean()
        squares = np.concatenate([np.zeros((len(changes), 1)), np.cumsum(centered**2, 1)], 1)
        values = fft.rfft(centered, fft.next_fast_len(2 * changes.shape[1], real=True))
        return cls(values, squares, present.mean(1))

    def likeness(self, target: "Spectra", shifts: np.ndarray, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return how alike a `part` of the columns and the target are at each shift, (C, S), for order and decision.

        The first gives less to an overlap of few changes. The second is the correlation of the measured changes.
        """
        size = self.squares.shape[1]
        length = fft.next_fast_len(2 * size - 2, real=True)
        products = fft.irfft(self.values[part] * target.values.conj(), length)[
            :, shifts
        ]  # sums of known(t) target(t - s)
        back, ahead = np.minimum(shifts, 0), np.maximum(shifts, 0)
        squares, others = self.squares[part], target.squares[0]
        own = squares[:, size - 1 + back] - squares[:, ahead]  # of the places that both columns have
        other = others[size - 1 - ahead] - others[-back]
        norms = np.sqrt(np.maximum(own, 0) * np.maximum(other, 0))
        whole = np.sqrt(squares[:, -1:] * others[-1])
        tiny = np.finfo(np.float64).tiny
        both = np.sqrt(self.measured[part] * target.measured)[:, None]
        alike = np.abs(products) / np.maximum(norms + SHARE * whole, tiny)
        return alike, np.abs(products) / np.maximum(norms * both, tiny)


def _candidates(known: Spectra, target: Spectra, shifts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the columns and shifts at which a column may equal the target, of each column the most alike first."""
    count = min(CANDIDATES, len(shifts))
    step = max(1, AT_ONCE // known.squares.shape[1])
    for start in range(0, len(known.values), step):
        alike, correlation = known.likeness(target, shifts, slice(start, start + step))
        best = np.argpartition(-alike, count - 1, axis=1)[:, :count]
        unmoved = np.broadcast_to(np.flatnonzero(shifts == 0), (len(best), 1))
        for row, places in enumerate(np.concatenate([unmoved, best], 1)):
            near = places[correlation[row, places] >= ALIKE]
            order = sorted(dict.fromkeys(near.tolist()), key=lambda place: (shifts[place] != 0, -alike[row, place]))
            yield from ((start + row, int(shifts[place])) for place in order)


def _is_copy(known: np.ndarray, target: np.ndarray, shift: int) -> bool:
    """Return whether the changes of `known` are those of `target` `shift` steps before, up to scale and rounding."""
    one, other = (known[shift:], target[: len(target) - shift]) if shift >= 0 else (known[:shift], target[-shift:])
    both = np.isfinite(one) & np.isfinite(other)
    one, other = one[both], other[both]
    if min(np.count_nonzero(one), np.count_nonzero(other)) < LEAST_CHANGES:
        return False
    one, other = _limited(one), _limited(other)
    if np.ptp(one) == 0 or np.ptp(other) == 0:  # a straight line has equal changes
        return False
    return bool(abs(np.corrcoef(one, other)[0, 1]) >= SAME)


def _limited(changes: np.ndarray) -> np.ndarray:
    """Return changes of at most `LARGE` times the median size of those that are not 0."""
    sizes = np.abs(changes[changes != 0])
    limit = LARGE * float(np.median(sizes)) if len(sizes) else 0.0
    return changes.clip(-limit, limit)


def _moved(shift: int) -> str:
    if shift == 0:
        return ""
    steps = "1 step" if abs(shift) == 1 else f"{abs(shift)} steps"
    return f" {steps} {'before' if shift > 0 else 'later'}"


def check_parts(known: pd.DataFrame, targets: pd.DataFrame, others: pd.DataFrame, horizon: int) -> list[str]:
    """Raise InputError for known covariates that together make up a target: a sum, a difference, a product, a ratio.

    A linear combination of their changes, fitted on the first half of at most `MOST_FITTED` rows, must have a
    correlation of `SAME` with the changes of the target in the second half. It may contain the steps before and after,
    and be moved in time. Products and ratios are sums of logarithms. Rows with a value that was not measured are left
    out. Return a note for each target that they make up only with `others`, the past covariates, or other targets: such
    a known covariate may be known ahead, as a contracted part of a load is.
    """
    known, targets, others = (frame.iloc[-MOST_FITTED:] for frame in (known, targets, others))
    tables = [(known, targets), (_logarithms(known), _logarithms(targets))]
    for columns, wanted in tables:
        changes = np.diff(columns.to_numpy(np.float64), axis=0)
        for target in wanted.columns if len(columns.columns) else ():
            if parts := _parts_of(np.diff(wanted[target].to_numpy(np.float64)), changes, horizon):
                listed = ", ".join(repr(columns.columns[place]) for place in parts)
                subject = f"column {listed} determines" if len(parts) == 1 else f"columns {listed} together determine"
                raise InputError(
                    f"{KNOWN}: {subject} the target {target!r}, as parts of it do, so their future "
                    f"contains the answer: leave them out, or name them in {PAST}"
                )
    return _notes_on_parts(known, targets, others) if targets.shape[1] + others.shape[1] <= FEW else []


def _logarithms(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the logarithms of the columns without a value of 0 or below."""
    positive = frame.loc[:, ~(frame <= 0).any()]
    return pd.DataFrame(np.log(positive.to_numpy(np.float64)), positive.index, positive.columns)


def _notes_on_parts(known: pd.DataFrame, targets: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Return a note for each target that known covariates make up together with other columns, not without them."""
    changes, notes = np.diff(known.to_numpy(np.float64), axis=0), []
    for target in targets.columns:
        rest = pd.concat([targets.drop(columns=target), others], axis=1)
        wanted, more = (np.diff(part.to_numpy(np.float64), axis=0) for part in (targets[target], rest))
        shares = _fitted(wanted, changes, [0], more)
        if more.size and shares is not None and _fitted(wanted, changes[:, :0], [0], more) is None:
            listed = ", ".join(repr(known.columns[place]) for place in _named(shares))
            notes.append(
                f"{listed}: a part of the target {target!r}, which it makes up with other columns; if its future was "
                f"measured, name it in {PAST}"
            )
    return notes


def _parts_of(target: np.ndarray, known: np.ndarray, horizon: int) -> list[int]:
    """Return the places of the known columns (N, C) that make up a target (N,), all changes; none if they do not."""
    most = min(MOST_TOGETHER, len(target) // 4)
    if known.shape[1] > most:
        chosen = _chosen(target, known)
        shares = _fitted(target, known[:, chosen], [0], known[:, :0])
        return [] if shares is None else [chosen[place] for place in _named(shares)]
    for shift in _shifts(target, known, horizon):
        steps = [step for step in (shift - 1, shift, shift + 1) if step < horizon]
        for lags in (steps, [shift]):
            if (
                len(lags) * known.shape[1] <= most
                and (shares := _fitted(target, known, lags, known[:, :0])) is not None
            ):
                return _named(shares.reshape(len(lags), -1).max(0))
    return []


def _shifts(target: np.ndarray, known: np.ndarray, horizon: int) -> list[int]:
    """Return 0 and, among few columns, the shift at which one of them is most like the target."""
    size = len(target) + 1
    if known.shape[1] > FEW or size <= 2 * LEAST_COMPARED:
        return [0]
    shifts = np.arange(LEAST_COMPARED - size, min(horizon, size - LEAST_COMPARED))
    alike, _ = Spectra.of(known.T).likeness(Spectra.of(target[None]), shifts, slice(None))
    return list(dict.fromkeys([0, int(shifts[np.argmax(alike.max(0))])]))


def _fitted(target: np.ndarray, known: np.ndarray, lags: list[int], others: np.ndarray) -> np.ndarray | None:
    """Return how much each known column at each lag contributes to a target, None if they do not make it up.

    A contribution is the standard deviation of a column times its weight, as a share of that of the target.
    """
    rows = np.arange(max(0, -min(lags)), len(target) - max(0, *lags))
    columns = np.concatenate([*(known[rows + lag] for lag in lags), others[rows]], 1)
    usual = np.abs(target[rows]) <= np.abs(_limited(target[np.isfinite(target)])).max(initial=0.0)  # no spike, no gap
    complete = np.isfinite(columns).all(1) & usual
    columns, wanted = columns[complete], target[rows][complete]
    half = len(wanted) // 2
    if half < max(LEAST_COMPARED // 2, 2 * columns.shape[1]) or not columns.shape[1]:
        return None
    scale = columns.std(0)
    scale[scale == 0] = 1
    weights = np.linalg.lstsq((columns / scale)[:half], wanted[:half])[0]
    late, forecast = wanted[half:], (columns / scale)[half:] @ weights
    if np.count_nonzero(late) < LEAST_CHANGES:
        return None
    late, forecast = _limited(late), _limited(forecast)
    if np.ptp(late) == 0 or np.ptp(forecast) == 0 or np.corrcoef(late, forecast)[0, 1] < SAME:
        return None
    shares: np.ndarray = np.abs(weights[: known.shape[1] * len(lags)]) / wanted.std()
    return shares


def _named(shares: np.ndarray) -> list[int]:
    """Return the places of the columns that contribute to a target."""
    return [int(place) for place in np.flatnonzero(shares >= PART)]


def _chosen(target: np.ndarray, known: np.ndarray) -> list[int]:
    """Return the known columns that explain the target best, one after another (orthogonal matching pursuit)."""
    complete = np.isfinite(target)
    wanted = target[complete][: complete.sum() // 2]
    columns = np.nan_to_num(known[complete][: len(wanted)])
    columns = columns / np.maximum(np.linalg.norm(columns, axis=0), np.finfo(np.float64).tiny)
    chosen: list[int] = []
    rest = wanted
    for number in range(min(MOST_PARTS, len(wanted) // 4)):
        chosen.append(int(np.argmax(np.abs(columns.T @ rest))))
        rest = wanted - columns[:, chosen] @ np.linalg.lstsq(columns[:, chosen], wanted)[0]
        left = rest @ rest / max(wanted @ wanted, np.finfo(np.float64).tiny)
        if left < 1 - SAME or (number >= 3 and left > 0.5):
            break
    return sorted(set(chosen))
