"""The split of the rows into training, validation and test targets, in order of time."""

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


def split_rows(num_rows: int, train: float | int, validation: float | int, test: float | int) -> Split:
    """Return the rows of each split.

    Three fractions that sum to 1 use every row, as in published tables: int(train·n) rows for training, int(test·n) for
    the test, the rest for validation. Three whole numbers are row counts from the first row on; later rows are unused
    (ETT's standard borders are 8640, 2880, 2880). With `test` 0 there is no test split.
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
        raise InputError(f"{shown}: use three fractions that sum to 1 or three whole numbers of rows")
    if min(counts[:2]) < 1 or counts[2] < (test > 0):
        raise InputError(f"{shown}: of {num_rows} rows a split gets {min(counts)}: each needs at least 1")
    if sum(counts) > num_rows:
        raise InputError(f"{shown}: {sum(counts)} rows are requested, the table has {num_rows}: lower the counts")
    first_border, second_border, end = counts[0], counts[0] + counts[1], sum(counts)
    return Split(range(first_border), range(first_border, second_border), range(second_border, end))
