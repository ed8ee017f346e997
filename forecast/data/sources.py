"""Loading of a series from its source, and checks on the files that a run folder may name."""

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.conf_files import choice_files, load_choice
from forecast.common.errors import InputError
from forecast.common.files import sha256
from forecast.data.calendar import check_cycles
from forecast.data.generated.diagnostic import diagnostic_table
from forecast.data.generated.synthetic import simulate_transformer
from forecast.data.holidays import Holidays
from forecast.data.large import is_large, read_large
from forecast.data.settings import DIAGNOSTIC, GENERATED, SYNTHETIC, DataSettings
from forecast.tables.download import data_folders, locate
from forecast.tables.draft import check_present
from forecast.tables.files import Upload, read_table
from forecast.tables.flaws import Choice, Flaws, value_word
from forecast.tables.formats.folders import Folder
from forecast.tables.formats.layout import Layout
from forecast.tables.formats.unpacking import content_sha256
from forecast.tables.roles import KNOWN, PAST, Roles, static_values
from forecast.tables.series import Series, series_from_frame

Reader = Callable[[Path | Upload, Layout], pd.DataFrame]


@dataclass(frozen=True)
class Source:
    """A series with the roles of its columns, and its origin.

    `path` and `sha256` describe its file; None: simulated. `cycles` are the calendar cycles of the model; None: those
    that the training split shows. `holidays` are inputs known ahead. `origins` are the only rows at which a forecast
    may begin; None: every row. `whole` are the targets whose forecasts are whole numbers.
    """

    series: Series
    roles: Roles
    path: Path | None = None
    sha256: str | None = None
    cycles: tuple[str, ...] | None = None
    holidays: Holidays | None = None
    origins: np.ndarray | None = None
    whole: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """The columns to forecast."""
        assert self.roles.targets is not None
        return self.roles.targets

    @property
    def columns(self) -> list[str]:
        """The channels of the model, the targets first; a categorical past covariate is not a channel."""
        return [*self.targets, *(name for name in self.roles.past if name not in self.series.labels)]


def _check_drawn(config: DataSettings) -> None:
    """Raise InputError for roles or a calendar of generated series: the drawing says what their columns are."""
    roles = config.roles
    given: dict[str, object] = {"data.targets": roles.targets, PAST: roles.past, KNOWN: roles.known}
    given |= {"data.calendar": config.calendar is None or config.calendar, "data.holidays": config.holidays}
    for name, value in given.items():
        if value:
            raise InputError(
                f"{name}: generated series have channels, drivers and no dates: leave it out, or set data.channels and "
                "data.drivers"
            )


def load_source(
    config: DataSettings,
    too_few: Callable[[int], str | None] = lambda rows: None,
    sent: Upload | None = None,
    read: Reader = read_table,
) -> Source:
    """Read the series that the `data` group names, or the table that was `sent`, and check the roles of its columns.

    `too_few` returns why a table with so many rows is too short; None: it is not. `read` returns the raw table of a
    file.
    """
    roles, reading = config.roles, replace(config.reading, too_few=too_few)
    roles.check()
    path: Path | None = None
    digest: str | None = None
    origins: np.ndarray | None = None
    if config.source == SYNTHETIC:
        frame = simulate_transformer(rows=config.rows, seed=config.seed)
        series = series_from_frame(frame, roles, reading, source="the simulated transformer")
    elif config.source == DIAGNOSTIC:
        frame, origins = diagnostic_table(config.diagnostic)
        series = series_from_frame(frame, roles, reading, source="the diagnostic series")
    elif config.source == GENERATED:
        from forecast.data.generated.windows import driver_names, held_table  # here: they import torch

        _check_drawn(config)
        frame = held_table(config.seed, config.rows, config.channels, config.drivers)
        roles = replace(roles, known=driver_names(config.drivers))
        series = series_from_frame(frame, roles, reading, source="the generated series")
    elif sent is not None:
        series = _read_file(sent, config, too_few, read)
    else:
        path = _path(config)
        digest = data_digest(path)  # before the file is read, since it may grow later
        try:
            series = _read_file(path, config, too_few, read)
        except Flaws as error:
            error.args = (f"{error}; to see the whole table: forecast data {shlex.quote(str(path))}",)
            raise
    _check_date_format_acts(config, series, sent or path)
    roles = _with_ids(roles, series, config)
    targets = roles.targets
    if targets is None:
        targets = [name for name in series.frame.columns if name not in roles.covariates]
    if not targets:
        raise InputError(f"{PAST} and {KNOWN} name every column: leave one to forecast")
    series.bounds.check_names(targets)
    for name in series.resampling.aggregate:
        if name not in series.frame.columns:
            raise InputError(f"data.aggregate.{name}: the series has no such column: correct data.aggregate")
    named = config.calendar
    cycles = None if named is None else check_cycles([str(name) for name in named], series.frequency)
    holidays = _holidays(config, series)
    if holidays is not None:
        places = holidays.places(series.ids, "the table" if path is None else str(path))
        series = replace(series, notes=(*series.notes, *holidays.notes(pd.DatetimeIndex(series.frame.index), places)))
    static = {} if isinstance(config.static_covariates, list) else config.static_covariates or {}
    roles = replace(roles, targets=targets, static=static_values(static, targets))
    whole = _whole_targets(series, targets) if config.whole_numbers else ()
    return Source(series, roles, path, digest, cycles, holidays, origins, whole)


def _read_file(path: Path | Upload, config: DataSettings, too_few: Callable[[int], str | None], read: Reader) -> Series:
    """Return the series in a file; a refusal that is a choice of options also names the other problems."""
    roles, reading = config.roles, replace(config.reading, too_few=too_few)

    def problems(changes: Mapping[str, Any]) -> Sequence[InputError]:
        try:
            _read_file(path, replace(config, **changes), too_few, read)
        except Flaws as error:
            return error.flaws
        except InputError as error:
            return [error]
        return []

    try:
        if isinstance(path, Path) and is_large(path, roles, reading):
            return read_large(path, roles, reading)
        return series_from_frame(read(path, reading.layout), roles, reading, source=str(path))
    except Choice as choice:
        choice.add([problems(option) for option in choice.options if replace(config, **option) != config])
        raise


def data_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, or of the names and digests of the files in a folder; None if it is neither."""
    if path.is_dir():
        facts = [f"{file.relative_to(path)} {sha256(file)}" for file in Folder(path).files]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()
    return sha256(path) if path.is_file() else None


def _with_ids(roles: Roles, series: Series, config: DataSettings) -> Roles:
    """Return the roles with the id columns of a panel and its static covariates; refuse options of a panel without."""
    if series.ids is not None:
        present = [*series.ids.static.columns, *series.frame.columns, *series.unread]
        check_present(roles.fixed or (), present, "the table", "data.static_covariates")
        return replace(roles, ids=list(series.ids.columns), fixed=list(series.ids.static.columns))
    for key, value in (("static_covariates", config.static_columns), ("id_embedding", config.id_embedding)):
        if value:
            raise InputError(
                f"data.{key}={value}: the table has one series: name data.id_columns, or leave out data.{key}"
            )
    return replace(roles, ids=[], fixed=[])


def _whole_targets(series: Series, targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that hold whole numbers only; refuse a table without any."""
    measured = series.measured
    whole = tuple(name for name in targets if (measured[name].dropna() % 1 == 0).all())
    if not whole:
        raise InputError("data.whole_numbers=true: no target holds whole numbers only: set it to false")
    return whole


def _holidays(config: DataSettings, series: Series) -> Holidays | None:
    if config.holidays is None and config.holidays_column is None:
        return None
    before, after = config.holidays_before, config.holidays_after
    holidays = Holidays.parse(config.holidays, before, after, config.holidays_column)
    holidays.check_frequency(series.frequency)
    return holidays


def _check_date_format_acts(config: DataSettings, series: Series, path: Path | Upload | None) -> None:
    if config.date_format is not None and series.time_format.date_format is None:
        raise InputError(
            f"{path}, column {series.frame.index.name!r}: holds dates, not text: set data.date_format=null"
        )


def expanded(name: str) -> Path:
    """Return the path with ~ expanded, or unchanged if that home does not exist."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _path(config: DataSettings) -> Path:
    data_folders()  # refuses a wrong FORECAST_DATA_DIR before anything is read
    if config.path is not None:
        path = expanded(config.path)
        known = config.sha256
        if known is not None and path.is_file() and known.lower() not in (sha256(path), content_sha256(path)):
            raise InputError(f"{path}: its sha256 is not data.sha256: use the right file, or set data.sha256=null")
        return path
    if config.file_name is None:
        raise InputError("data.path=null: set the path of your file, data=csv data.path=my.csv")
    return locate(config.file_name, url=config.url, sha256=config.sha256, about=config.about)


def described_data(data: Mapping[str, Any], folder: Path, cure: Callable[[str], str]) -> dict[str, Any]:
    """Return the `data` group of a run folder; raise InputError if its file is not the user's.

    A file is accepted in the data folder (`data/` or FORECAST_DATA_DIR) or in the run folder. The address is taken from
    `conf/data` if the group is one of its presets, else None: the address in the run folder is never used. `cure`
    returns the command by which the user names a file.
    """
    if data.get("source") != "file":
        return dict(data)
    if data["path"] is not None:
        if not lies_within(Path(str(data["path"])), folder):
            raise InputError(_elsewhere(str(data["path"]), folder, cure))
        return {**data, "url": None}
    if data["file_name"] is not None and not _is_plain(str(data["file_name"])):
        raise InputError(_elsewhere(str(data["file_name"]), folder, cure))
    return {**data, "url": _address(data)}


def lies_within(path: Path, folder: Path) -> bool:
    """Return whether a file is in the data folder or, with links resolved, in the data or the run folder."""
    if ".." not in path.parts and any(path.absolute().parent == place.absolute() for place in data_folders()):
        return True  # the folder is the user's, and so is a link in it
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):  # an invalid name or a link to itself
        return False
    return any(real.is_relative_to(place.resolve()) for place in (*data_folders(), folder))


def resume_words(folder: Path, data: Mapping[str, Any]) -> str:
    """Return the quoted command-line overrides that resume a run: its folder, and its file if needed."""
    words = [_word("resume", str(folder))]
    if data.get("source") == "file" and data["path"] is not None and not lies_within(Path(data["path"]), folder):
        words.append(_word("data.path", str(data["path"])))
    return " ".join(words)


def resume_command(folder: Path, path: str) -> str:
    """Return the command that resumes a run on a file that the user names."""
    return f"python train.py {_word('resume', str(folder))} {_word('data.path', path)}"


def _elsewhere(name: str, folder: Path, cure: Callable[[str], str]) -> str:
    places = " or ".join(str(place) for place in data_folders())
    return (
        f"{folder}: names the data file {name!r}, which is in neither {places} nor the run folder. A run folder "
        f"may not choose files elsewhere. If the file is yours: {cure(name)}"
    )


def _word(key: str, value: str) -> str:
    """Return `key=value`, quoted for the shell and Hydra."""
    return shlex.quote(value_word(key, value))


LONGEST_FILE_NAME = 250
"""Longest file name in bytes; common file systems allow 255, which leaves room for an ending."""


def _is_plain(name: str) -> bool:
    return (
        PurePath(name).name == name
        and name not in ("", ".", "..")
        and not {"\\", "\0"} & set(name)
        and len(name.encode(errors="replace")) <= LONGEST_FILE_NAME
    )


def _address(data: Mapping[str, Any]) -> str | None:
    """Return the address in `conf/data` for a file of exactly this name and hash, else None."""
    for preset in map(load_choice, choice_files("data")):
        same = all(preset.get(key) == data.get(key) for key in ("name", "file_name", "sha256"))
        if same and preset.get("sha256") is not None:
            url = preset.get("url")
            return None if url is None else str(url)
    return None
