"""The series of a long table that are forecast: those that are asked for, or all that have enough rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forecast.common.errors import InputError
from forecast.common.text import counted
from forecast.predict.input import ids_of
from forecast.tables.labels import label_of
from forecast.tables.panel import NAMED, Id, first_of, shown_id
from forecast.tables.series import Series, only

Wanted = str | int | Sequence[str | int | Id]
"""Ids of series that a user asks for: one, or several."""


class TooShort(InputError):
    """Some series of a panel, `few` (S,), cannot be forecast; `cause` says why, after their number."""

    def __init__(self, text: str, few: np.ndarray, cause: str) -> None:
        super().__init__(text)
        self.few, self.cause = few, cause


def chosen(series: Series, source: str, ids: Wanted, least: int, *, drops_short: bool) -> Series:
    """Return the panel with the series that are asked for, or with all.

    A series with fewer than `least` rows is refused. With `drops_short`, it is left out instead, unless `ids` name it
    or no series is longer.
    """
    own = ids_of(series)
    if asked := named_ids(ids):
        places = {",".join(name): place for place, name in enumerate(own.names)}
        if absent := [name for name in asked if name not in places]:
            listed = ", ".join(list(places)[:NAMED])
            raise InputError(f"--ids {absent[0]}: {source} has no such series, only {listed} …: correct the id")
        series = only(series, np.array(sorted({places[name] for name in asked})))
        own = ids_of(series)
    elif own.empty and not drops_short:
        raise InputError(
            f"{source}, {shown_id(own.columns, own.empty[0])}: no target has a value ({len(own.empty):,} such "
            "series): add values, or name the others with --ids (ids=[…] in Python)"
        )
    short = own.lengths < least
    if drops_short and not asked and not short.all() and (short.any() or own.empty):
        return without(series, short, f"have fewer than {least} rows")
    if short.any():
        place = int(np.argmax(short))
        raise InputError(
            f"{source}, {own.shown(place)}: it has {own.lengths[place]} rows, and {int(short.sum()):,} series have "
            f"fewer than {least}: give at least {least} rows of each, or name the others with --ids (ids=[…] in "
            "Python)"
        )
    return series


def without(series: Series, few: np.ndarray, cause: str) -> Series:
    """Return the panel without some series, `few` (S,), and those without a value; a line counts and names them."""
    ids = ids_of(series)
    named = [f"{shown_id(ids.columns, name)} (no target value)" for name in ids.empty]
    named += [f"{ids.shown(int(place))} ({counted(int(ids.lengths[place]), 'row')})" for place in np.flatnonzero(few)]
    line = f"{len(named):,} of {len(ids) + len(ids.empty):,} series {cause}: {first_of(named)}: left out"
    kept = only(series, np.flatnonzero(~few))
    own = replace(ids_of(kept), empty=(), left_out=(*ids.left_out, line))
    return replace(kept, ids=own, notes=(*kept.notes, line))


def named_ids(ids: Wanted) -> list[str]:
    """Return ids as `--ids` writes them, the labels of several columns joined by a comma."""
    each = [ids] if isinstance(ids, str | int) else list(ids)
    return [",".join(map(label_of, item)) if isinstance(item, tuple) else label_of(item) for item in each]
