"""Known covariates that contain the answer: a column that is a target, or a target moved in time."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import fft  # type: ignore[import-untyped]

from forecast.common.errors import InputError

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

ALIKE = 0.9
"""Correlation of all changes from which two columns are compared in full; gaps make it smaller than `SAME`."""

LARGE = 8.0
"""A change is limited to so many times the median change: one spike must not decide."""

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
    columns = {name: np.diff(known[name].to_numpy(np.float64)) for name in known.columns}
    spectra = {name: _Spectrum.of(changes) for name, changes in columns.items()}
    for target in targets.columns:
        other = np.diff(targets[target].to_numpy(np.float64))
        spectrum = _Spectrum.of(other)
        for name, changes in columns.items():
            for shift in _candidates(spectra[name], spectrum, shifts):
                if _is_copy(changes, other, shift):
                    raise InputError(
                        f"data.known_covariates: column {name!r} is the target {target!r}{_moved(shift)}, so its "
                        "future contains the answer: leave it out, or name it in data.past_covariates"
                    )


@dataclass(frozen=True)
class _Spectrum:
    """The spectrum of the changes of a column, and the sum of their squares before each place, (N,)."""

    values: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, changes: np.ndarray) -> "_Spectrum | None":
        """Return the spectrum of the limited changes around their mean; None without two different changes."""
        present = np.isfinite(changes)
        limited = _limited(changes[present])
        if not limited.size or np.ptp(limited) == 0:
            return None
        centered = np.zeros(len(changes))
        centered[present] = limited - limited.mean()
        return cls(
            fft.rfft(centered, fft.next_fast_len(2 * len(changes), real=True)),
            np.concatenate([[0.0], np.cumsum(centered**2)]),
        )


def _candidates(known: _Spectrum | None, target: _Spectrum | None, shifts: np.ndarray) -> list[int]:
    """Return 0 and the shifts at which two columns may be equal, the most alike first; none for a constant column."""
    if known is None or target is None:
        return []
    size = len(known.squares)
    length = fft.next_fast_len(2 * size - 2, real=True)
    products = fft.irfft(known.values * target.values.conj(), length)[shifts]  # sum of known(t) target(t - s)
    back = np.minimum(shifts, 0)
    ahead = np.maximum(shifts, 0)
    own = known.squares[size - 1 + back] - known.squares[ahead]  # of the places that both columns have
    other = target.squares[size - 1 - ahead] - target.squares[-back]
    norms = np.sqrt(np.maximum(own, 0) * np.maximum(other, 0))
    alike = np.abs(products) / (norms + SHARE * np.sqrt(known.squares[-1] * target.squares[-1]))
    best = np.argpartition(-alike, min(CANDIDATES, len(alike) - 1))[:CANDIDATES]
    best = best[np.abs(products[best]) >= ALIKE * norms[best]]
    return list(dict.fromkeys([0, *shifts[best[np.argsort(-alike[best])]].tolist()]))


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
