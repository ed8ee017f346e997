"""Numbers that stand for a missing value: alien to their column, and repeated exactly."""

import shlex
from collections.abc import Sequence

import numpy as np

from forecast.common.text import counted
from forecast.tables.marks import marks_word
from forecast.tables.series import Series

CODES = (
    *(99.9, 99.99, 999, 999.9, 999.99, 9999, 9999.9, 99999, 999999, 1e20, 1e30),
    *(32767, 32768, 65535, 2147483647, 2147483648),
)
"""Usual numbers for a missing value, positive or negative."""

CODE_WIDTHS, WIDTHS = 1.0, 3.0
"""Distance from all other values, in widths of their range, at which a code and any other number are alien."""

LEAST_COUNT = 5
"""Least number of times that a number other than a code occurs: two equal spikes happen."""

MOST = 0.2
"""Largest share of a column's values that stand for missing: a value of more cells is a state, such as closed."""

MOST_ZEROS = 0.02
"""The same share for 0, which often is a measurement."""

DISTINCT = 10
"""Least number of distinct other values: among few, none is alien."""

NAMED = 3
"""Largest number of columns in a warning."""


def find_sentinels(values: np.ndarray) -> dict[float, int]:
    """Return the numbers of a column (N,) that probably stand for missing, and how often each occurs; NaN is left out.

    Candidates are the lowest and the highest value, alone or both, and then those of the rest. Each is far from all
    other values. A number within their range, such as 0 of a temperature, is not found.
    """
    rest, found = values[np.isfinite(values)], dict[float, int]()
    while len(rest):
        ends = sorted({float(rest.min()), float(rest.max())})
        choices = [ends[:1], ends[1:], ends] if len(ends) == 2 else []
        alien = next((some for some in choices if _are_alien(some, rest, len(values))), None)
        if alien is None:
            return found
        found |= {value: int((rest == value).sum()) for value in alien}
        rest = rest[~np.isin(rest, alien)]
    return found


def _are_alien(numbers: Sequence[float], values: np.ndarray, cells: int) -> bool:
    """Return whether each of the numbers is far from all other values and frequent, but not too frequent."""
    others = values[~np.isin(values, numbers)]
    if not len(others):
        return False
    low, high = others.min(), others.max()
    for number in numbers:
        count, is_code = int((values == number).sum()), abs(number) in CODES
        if count > (MOST if number else MOST_ZEROS) * cells or (count < LEAST_COUNT and not is_code):
            return False
        if max(low - number, number - high) < (CODE_WIDTHS if is_code else WIDTHS) * (high - low):
            return False
    return len(np.unique(others)) >= DISTINCT


def sentinel_warnings(series: Series, columns: Sequence[str]) -> list[str]:
    """Return a warning if columns hold numbers that probably stand for missing, with the options to say so."""
    texts, marks = [], list(series.policies.missing_values)
    for name in columns:
        values, observed = series.frame[name].to_numpy(np.float64), series.observed_of([name])
        values = values if observed is None else values[observed[:, 0]]
        if not (found := find_sentinels(values)):
            continue
        rest = values[np.isfinite(values) & ~np.isin(values, list(found))]
        counts = " and ".join(f"{number:.12g} in {counted(count, 'cell')}" for number, count in found.items())
        texts.append(f"{name!r} holds {counts}, and else {rest.min():.4g} to {rest.max():.4g}")
        marks += found
    if not texts:
        return []
    more = f"; and {len(texts) - NAMED} more columns" if len(texts) > NAMED else ""
    mask = "" if series.policies.fills else " data.missing=mask"
    return [
        f"{'; '.join(texts[:NAMED])}{more}: the model learns such a number as a measurement: if it means missing, "
        f"train with {shlex.quote(marks_word(marks))}{mask}"
    ]
