"""The split of the rows into training, validation and test targets, in order of time, and the rows of their windows."""

from collections.abc import Mapping
from dataclasses import dataclass

from forecast.common.errors import InputError


@dataclass(frozen=True)
class Split:
    """Target rows of each split; the splits are consecutive and do not overlap. `test` is empty if there is none."""

    train: range
    validation: range
    test: range

    @property
    def scored(self) -> str:
        """The split whose scores end a run: test, or validation if there is no test split."""
        return "test" if self.test else "validation"


def split_rows(
    num_rows: int, train: float | int, validation: float | int, test: float | int, *, unit: str = "row"
) -> Split:
    """Return the rows of each split.

    Three fractions that sum to 1 use every row, as in published tables: int(train·n) rows for training, int(test·n) for
    the test, the rest for validation. Three whole numbers are row counts from the first row on; later rows are unused
    (ETT's standard borders are 8640, 2880, 2880). With `test` 0 there is no test split. `unit` is what a message
    calls a row.
    """
    sizes = (train, validation, test)
    shown = f"data.split train {train}, validation {validation}, test {test}"
    if all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        counts = [int(size) for size in sizes]
    elif all(isinstance(size, float) for size in sizes[:2]) and (isinstance(test, float) or test == 0):
        if not (min(train, validation) > 0 <= test and abs(sum(sizes) - 1) <= 1e-6):
            raise InputError(
                f"{shown}: fractions must be above 0 (test may be 0) and sum to 1, these sum to {sum(sizes):g}: give "
                "all three, such as 'data.split={train: 0.9, validation: 0.1, test: 0}'"
            )
        first, last = int(num_rows * train), int(num_rows * test)
        counts = [first, num_rows - first - last, last]
    else:
        raise InputError(f"{shown}: use three fractions that sum to 1 or three whole numbers of {unit}s")
    if min(counts[:2]) < 1 or counts[2] < (test > 0):
        raise InputError(f"{shown}: of {num_rows} {unit}s a split gets {min(counts)}: each needs at least 1")
    if sum(counts) > num_rows:
        raise InputError(f"{shown}: {sum(counts)} {unit}s are requested, the table has {num_rows}: lower the counts")
    first_border, second_border, end = counts[0], counts[0] + counts[1], sum(counts)
    return Split(range(first_border), range(first_border, second_border), range(second_border, end))


def window_rows(targets: range, context_length: int, horizon: int, *, part: str) -> range:
    """Return the first context row of every window whose targets are all in `targets`.

    The context may begin before the split, so that the first target of a later split has the same date at every context
    length. Windows cannot begin before row 0, so only the first split loses windows.
    """
    if 0 < targets.start < context_length:
        raise InputError(
            f"context_length {context_length} is longer than the {targets.start} rows before the {part} split: "
            "lower context_length or use more data"
        )
    first = max(targets.start, context_length)
    count = targets.stop - horizon - first + 1
    if count < 1:
        need = horizon if targets.start else context_length + horizon
        raise InputError(
            f"context_length {context_length} + horizon {horizon}: the {part} split needs at least {need} rows "
            f"and has {len(targets)}: lower context_length or horizon, or use more data"
        )
    return range(first - context_length, first - context_length + count)


def too_few_rows(num_rows: int, split: Mapping[str, float | int], context_length: int, horizon: int) -> str | None:
    """Return why a table of so many rows cannot be split into windows; None if it can."""
    try:
        for part, targets in vars(split_rows(num_rows, **split, unit="row")).items():
            if targets:
                window_rows(targets, context_length, horizon, part=part)
    except InputError as error:
        return str(error)
    return None
