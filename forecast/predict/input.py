"""Check that a table has the columns, frequency and length that a trained model requires."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.data.contract import DataContract
from forecast.tables.files import read_table, tidy_names
from forecast.tables.formats.layout import RECOGNIZED
from forecast.tables.panel import Ids
from forecast.tables.reading import Reading
from forecast.tables.series import Series, read_known, series_from_frame
from forecast.tables.times.calendars import calendar_named
from forecast.tables.times.forms import holds_times
from forecast.tables.transposed import upright

ENDS_IN_GAP = "ends in a gap"
"""Beginning of the note on an input whose last rows lack values."""


@contextmanager
def without_training_options() -> Iterator[None]:
    """Leave the options of a training out of the advice of an InputError: a forecast has none."""
    try:
        yield
    except InputError as error:
        text = re.sub(r",? or (set '?data\.|train with ).*", "", str(error))
        text = text.replace("set data.time_column to one of them", "leave the others out")
        error.args = (text.replace("leave it out of data.targets or the covariates", "fill it in"),)
        raise


def read_as_trained(contract: DataContract, path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the raw table of a file, read as in training if it has the layout that training names."""
    layout = contract.reading.layout
    if layout != RECOGNIZED:
        with suppress(InputError):
            table = read_table(path, layout)
            if set(contract.columns) <= set(tidy_names(table, os.fspath(path))[0].columns):
                return table
    return read_table(path)


def ids_of(series: Series) -> Ids:
    """Return the ids of a series that is known to be a panel."""
    assert series.ids is not None
    return series.ids


def reading_as_trained(contract: DataContract, frame: pd.DataFrame, time_column: str | None) -> Reading:
    """Return how to read a table with this time column as in training; its last rows include a look-back."""
    last_rows = contract.reading.last_rows
    return replace(
        contract.reading,
        last_rows=None if last_rows is None else max(last_rows, contract.context_length),
        fewer_allowed=True,
        time_column=time_column,
        time_format=contract.reading.time_format.fitting(frame, time_column),
        empty_labels=[name for name in contract.encoder.empty_labels if name not in contract.unread],
    )


def with_known(
    contract: DataContract, series: Series, table: pd.DataFrame, notes: tuple[str, ...], source: str
) -> Series:
    """Return the series with a table of known covariates, whose values count first, and notes on its columns."""
    column = contract.time_column if contract.time_column in table.columns else None
    time_format = contract.reading.time_format.fitting(table, column)
    reading = Reading(column, time_format, policies=contract.policies, resampling=contract.reading.resampling)
    with without_training_options():
        ahead = read_known(table, contract.roles_to_read, reading, source)
    return replace(series, ahead=(replace(ahead, notes=(*notes, *ahead.notes)), *series.ahead))


class MissingColumns(InputError):
    """A table lacks a column that the model was trained on."""


def read_input(contract: DataContract, frame: pd.DataFrame, source: str) -> Series:
    """Return `frame` as a series, repaired as in training; `source` is its name in messages.

    Only the known covariates that the forecast depends on are read. Rows before those of training may have flaws.
    """
    frame, notes = tidy_names(frame, source)
    frame = upright(frame, source, contract.reading.time_format.date_format, time_column=contract.time_column).frame
    check_columns(contract, frame, source)
    series = _at_frequency(contract, frame, source, time_column_of(contract, frame, source))
    if series.ids is not None:
        raise InputError(
            f"{source}: a long table of {len(series.ids):,} series, the first {series.ids.shown(0)}; the model was "
            "trained on one series: keep the rows of one id"
        )
    rows, least = len(series.frame), contract.least_rows
    if rows < least:
        why = why_few_rows(series)
        raise InputError(
            f"{source}: it has {rows} rows{why}, the look-back of the model is "
            f"{contract.context_length}: give at least {least} rows"
        )
    _check_measured(contract, series, source)
    gaps = [*_begins_in_gap(contract, series), *_ends_in_gap(contract, series)]
    return replace(series, notes=(*notes, *series.notes, *gaps))


def check_columns(contract: DataContract, frame: pd.DataFrame, source: str) -> None:
    """Raise MissingColumns if a table lacks a column of ids or one that the model reads."""
    present, region = list(frame.columns), contract.reading.region
    wanted = [*contract.roles.ids, *([] if region is None else [region]), *contract.columns]
    if missing := [name for name in wanted if name not in present]:
        raise MissingColumns(
            f"{source} has no column {missing[0]!r}, which the model was trained on, only "
            f"{', '.join(present[:12])}: use the columns of training"
        )


def time_column_of(contract: DataContract, frame: pd.DataFrame, source: str) -> str | None:
    """Return the time column of training, None if the table lacks it and at most one other holds its times."""
    own, time_format = contract.time_column, contract.reading.time_format
    if own in frame.columns:
        return own
    if time_format.columns is None and isinstance(frame.index, pd.RangeIndex):
        date_format = time_format.fitting(frame, None).date_format
        rivals = [str(name) for name in frame.columns if holds_times(frame[name], date_format)]
        if len(rivals) > 1:
            raise InputError(
                f"{source}: it lacks {own!r}, the time column of training, and "
                f"{', '.join(map(repr, rivals))} all hold dates: rename one of them to {own!r}"
            )
    return None


def _check_measured(contract: DataContract, series: Series, source: str) -> None:
    """Raise InputError if a target has no value in the look-back: a filled one would be all that the model sees."""
    if series.observed is None:
        return
    seen = np.asarray(series.observed[-contract.context_length :].any(axis=0))
    if missing := [name for name, has_value in zip(contract.targets, seen, strict=False) if not has_value]:
        raise InputError(
            f"{source}: {missing[0]!r} has no value in the last {contract.context_length} rows, the look-back of the "
            f"model: give rows with values, or train without {missing[0]!r} among data.targets"
        )


def _unmasked(contract: DataContract) -> list[str]:
    """Return the columns whose missing steps the model does not mask."""
    return [*contract.known, *contract.categorical]


def _begins_in_gap(contract: DataContract, series: Series) -> list[str]:
    """Return a note if a column of numbers has no value in the first steps of the look-back."""
    if not contract.policies.masks_past:
        return []
    length, shape = contract.context_length, series.frame.shape
    absent = max(0, length - len(series.frame))
    observed = np.ones(shape, bool) if series.observed is None else series.observed[-length:]
    starts = [absent + (int(np.argmax(seen)) if seen.any() else len(seen)) for seen in observed.T]
    pairs = zip(contract.columns, starts, strict=True)
    gaps = {name: start for name, start in pairs if name not in _unmasked(contract) and start}
    if not gaps:
        return []
    name, most = max(gaps.items(), key=lambda pair: pair[1])
    others = f" ({len(gaps) - 1} more begin in a gap)" if len(gaps) > 1 else ""
    steps = f"the first {most} of the {length} steps of the look-back"
    return [f"begins in a gap: {name!r} has no value in {steps}{others}: they are masked"]


def _ends_in_gap(contract: DataContract, series: Series) -> list[str]:
    """Return a note if a column has no value in the last row."""
    if series.observed is None or series.observed[-1].all():
        return []
    ends = [int(np.argmax(seen[::-1])) if seen.any() else len(seen) for seen in series.observed.T]
    name, most = max(zip(contract.columns, ends, strict=True), key=lambda pair: pair[1])
    repair = (
        "the encoder-decoder uses the window's mean there, the linear path the last value before"
        if contract.policies.masks_past and name not in _unmasked(contract)
        else "filled with the last value before"
    )
    more = sum(end > 0 for end in ends) - 1
    others = f" ({more} more end in a gap)" if more else ""
    return [f"{ENDS_IN_GAP}: {name!r} has no value in the last {most} rows{others}: {repair}"]


def _at_frequency(contract: DataContract, frame: pd.DataFrame, source: str, time_column: str | None) -> Series:
    """Return the series at the frequency of training; rows may fit another frequency as well."""
    reading = replace(
        reading_as_trained(contract, frame, time_column),
        kept_rows=contract.context_length if contract.policies.masks_past else 0,
    )

    def read(frequency: str | None) -> Series:
        return series_from_frame(frame, contract.roles_to_read, replace(reading, frequency=frequency), source)

    if len(frame) <= 2:
        return read(contract.frequency)
    try:
        series = read(None)
    except InputError as first:
        try:
            return read(contract.frequency)  # most rows may have no common step, or the one of training
        except InputError:
            if contract.policies.fills:
                raise
            raise first from None
    if series.frequency == contract.frequency:
        return series
    try:
        reread = read(contract.frequency)
    except InputError:
        if calendar_named(series.frequency) is not None:  # the rows have gaps at the step of training
            raise
        reread = None
    if reread is None or (len(reread.frame) != len(series.frame) and not _fits(contract, series.frequency)):
        raise InputError(
            f"{source}: its frequency is {series.frequency}, the model was trained at {contract.frequency}: "
            "resample the file or train a model on it"
        )
    return reread


def _fits(contract: DataContract, frequency: str) -> bool:
    """Return whether rows at this step fit: training had it, or only weekends are missing."""
    is_week = (frequency, contract.frequency) == ("B", "D")
    return frequency == contract.shown or (contract.policies.fills and is_week)


def why_few_rows(series: Series) -> str:
    """Return in brackets why a series has fewer rows than its table, empty if it has all."""
    reasons = [note for note in series.notes if "left out" in note or "no target value" in note]
    return f" ({reasons[0].split(' (')[0]})" if reasons else ""
