"""The way a table is read: its times, its step and its repairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from forecast.tables.bounds import NO_BOUNDS, Bounds
from forecast.tables.formats.layout import RECOGNIZED, Layout
from forecast.tables.repair import STRICT, Policies
from forecast.tables.times.buckets import AS_IT_IS, Resampling
from forecast.tables.times.time_format import PLAIN, TimeFormat


def _enough(rows: int) -> str | None:
    return None


@dataclass(frozen=True)
class Reading:
    """The way a table is read.

    Parameters
    ----------
    time_column
        Column of the times; None: the only column that holds times.
    time_format
        Layout and format of the times; its columns take the place of `time_column`.
    frequency
        Step between rows, a pandas alias or the name of a calendar; None infers it.
    policies
        Treatment of duplicate and missing rows.
    resampling
        Longer steps into which rows are put, or a step to which times are moved.
    bounds
        Limits of the targets; a value outside is refused.
    last_rows
        Number of rows to keep, the last by time; None keeps all.
    merges_series
        Whether a long table may become one series by the policy for duplicate times.
    fewer_allowed
        Whether the table may have fewer rows than `last_rows`.
    kept_rows
        Number of last rows that stay although a column has no value yet; its first value fills them.
    empty_labels
        Columns in which an empty cell is a label; None: all columns with labels.
    region
        Column that names the region of each series of a panel; None: none does.
    layout
        Delimiter, marks of numbers, encoding and header of a text file.
    too_few
        Function that returns why a number of rows is too small; None: it is not.
    """

    time_column: str | None = None
    time_format: TimeFormat = PLAIN
    frequency: str | None = None
    policies: Policies = STRICT
    resampling: Resampling = AS_IT_IS
    bounds: Bounds = NO_BOUNDS
    last_rows: int | None = None
    merges_series: bool = False
    fewer_allowed: bool = False
    kept_rows: int = 0
    empty_labels: Sequence[str] | None = None
    region: str | None = None
    layout: Layout = RECOGNIZED
    too_few: Callable[[int], str | None] = field(default=_enough, repr=False, compare=False)

    @property
    def step(self) -> str | None:
        """The step of the series: that of the buckets, or the one that is named; None infers it."""
        return self.resampling.frequency or self.frequency

    @property
    def merges_by(self) -> str | None:
        """The policy by which the series of a long table become one; None: they may not."""
        return self.policies.duplicates if self.merges_series and self.policies.duplicates != "error" else None
