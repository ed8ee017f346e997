"""Tables in memory: DataFrames of pandas, and what other packages hand over through Arrow."""

import sys
from typing import Any

import pandas as pd

from forecast.common.errors import InputError

CONVERSIONS = ("to_pandas", "to_dataframe", "toPandas")
"""Methods by which tables of other packages become DataFrames of pandas."""


def described(data: object) -> str:
    """Return the type of what was given instead of a DataFrame of pandas, and how to convert it, if it can be."""
    kind, package = type(data).__name__, type(data).__module__.partition(".")[0]
    name = f" {data.name!r}" if isinstance(data, pd.Series) else ""
    of = f" of {package}" if package in sys.modules and package not in ("builtins", "pandas", "__main__") else ""
    convert = next((method for method in CONVERSIONS if hasattr(data, method)), None)
    return f"a {kind}{name}{of}{'' if convert is None else f': give its .{convert}()'}"


def from_arrow(table: Any) -> Any:
    """Return a table with `__arrow_c_stream__` as a DataFrame of pandas, and anything else unchanged.

    Decimal numbers become float64, since pandas has no such type.
    """
    if isinstance(table, pd.DataFrame | pd.Series) or not hasattr(table, "__arrow_c_stream__"):
        return table
    import pyarrow

    try:
        columns = pyarrow.table(table)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, TypeError, ValueError):  # a single column
        return table
    for place, column in enumerate(columns.schema):
        if pyarrow.types.is_decimal(column.type):
            columns = columns.set_column(place, column.name, columns[place].cast(pyarrow.float64()))
    return columns.to_pandas()


def as_frame(table: Any, source: str = "the frame") -> pd.DataFrame:
    """Return a table as a DataFrame whose times and ids are columns, all with text as names.

    Times come from a `DatetimeIndex`, without a name as `date`, and ids and times from a `MultiIndex` with names.

    Raises
    ------
    InputError
        If it is another kind of object, or two columns have the same name.
    """
    table = from_arrow(table)
    if isinstance(table, pd.Series):
        table = table.to_frame("value") if table.name is None else table.to_frame()
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"{source} must be a table with a column of times: this is {described(table)}")
    if isinstance(table.index, pd.DatetimeIndex):
        table = table.rename_axis(index="date" if table.index.name is None else str(table.index.name)).reset_index()
    elif isinstance(table.index, pd.MultiIndex) and all(name is not None for name in table.index.names):
        table = table.reset_index()
    table = table.rename(columns=str)
    if doubled := list(table.columns[table.columns.duplicated()]):
        raise InputError(f"{source}: two columns are named {doubled[0]!r}: rename or drop one")
    return pd.DataFrame(table)
