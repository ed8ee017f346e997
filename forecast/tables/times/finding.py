"""The column or the columns that hold the times of a table, if none is named."""

from collections.abc import Sequence

import pandas as pd

from forecast.tables.flaws import Flaw
from forecast.tables.times.clocks import holds_clocks
from forecast.tables.times.forms import holds_times
from forecast.tables.times.numbered import find_numbered_column, propose_numbered_column
from forecast.tables.times.parts import find_calendar, find_clock
from forecast.tables.times.timestamps import find_time_column
from forecast.tables.times.written import find_spelled_column


def find_times(
    table: pd.DataFrame, source: str, taken: Sequence[str], ids: Sequence[str], date_format: str | None
) -> tuple[tuple[str, ...], Flaw | None]:
    """Return the columns that make the time, and a flaw if several columns hold dates.

    Usual dates come first. Parts such as year and month, numbers, and other spellings are looked for only in a table
    that has none. `taken` columns have another role, and `ids` identify series.
    """
    dates = [str(name) for name in table.columns if holds_times(table[name], date_format)]
    if len(dates) > 1:  # 18.00.00 is a clock, although it has the form of a date
        dates = [name for name in dates if not holds_clocks(table[name])] or dates
    if len(dates) == 1:
        return (dates[0], *find_clock(table, dates[0], taken, ids)), None
    if not dates:
        if date_format is None and (columns := find_calendar(table, taken, ids)):
            return columns, None
        if (name := find_numbered_column(table, [*taken, *ids], date_format)) is not None:
            return (name, *find_clock(table, name, taken, ids)), None
        if (spelled := find_spelled_column(table, [*taken, *ids], source, date_format)) is not None:
            return (spelled[0], *find_clock(table, spelled[0], taken, ids)), spelled[1]
        if date_format is None:
            propose_numbered_column(table, [*taken, *ids], source)
    name, ambiguous = find_time_column(table, source, date_format)
    return (name,), ambiguous
