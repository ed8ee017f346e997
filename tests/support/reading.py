"""Tables that are read with options, one by one: a test names only those that it is about."""

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from forecast.tables import series
from forecast.tables.reading import Reading
from forecast.tables.roles import Roles
from forecast.tables.series import Ahead, Series
from forecast.tables.times.time_format import TimeFormat


def roles_of(
    columns: Sequence[str] | None = None,
    covariates: Sequence[str] = (),
    known: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    ids: Sequence[str] = (),
    fixed: list[str] | None = None,
) -> Roles:
    """Return the roles of `columns`, None: all of a table; `covariates` has the known ones too."""
    targets = None if columns is None else [name for name in columns if name not in covariates]
    past = [name for name in covariates if name not in known]
    return Roles(targets, past, list(known), list(categorical), list(numeric), ids=list(ids), fixed=fixed)


FORMAT = {"time_columns": "columns", "date_format": "date_format", "zone": "zone"}
"""Fields of a `TimeFormat`, by the name that a test gives them."""


def _parts(options: dict[str, Any]) -> tuple[Roles, Reading]:
    if set(options) & set(FORMAT):
        form = TimeFormat(**{FORMAT[key]: value for key, value in options.items() if key in FORMAT})
        options = {key: value for key, value in options.items() if key not in FORMAT} | {"time_format": form}
    names = {field.name for field in fields(Reading)}
    reading = Reading(**{key: value for key, value in options.items() if key in names})
    return roles_of(**{key: value for key, value in options.items() if key not in names}), reading


def read_series(path: str | os.PathLike[str], **options: Any) -> Series:
    """Return the series in a file, read with these options of `Reading` and `roles_of`."""
    return series.read_series(path, *_parts(options))


def series_from_frame(frame: pd.DataFrame, source: str = "the frame", **options: Any) -> Series:
    """Return the series of a frame, read with these options of `Reading` and `roles_of`."""
    return series.series_from_frame(frame, *_parts(options), source)


def read_known(frame: pd.DataFrame, source: str, **options: Any) -> Ahead:
    """Return the known covariates of a frame, read with these options of `Reading` and `roles_of`."""
    return series.read_known(frame, *_parts(options), source)
