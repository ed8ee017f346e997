"""The `data` group of a configuration: the source of a series, the roles of its columns, and its repair."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import ENDINGS
from forecast.common.settings import check_present, option, options_of, read_options, settings
from forecast.common.text import is_plain
from forecast.data.generated.diagnostic import EVENT, KINDS, Diagnostic
from forecast.data.holidays import MOST_DAYS
from forecast.tables.bounds import Bounds
from forecast.tables.files import tidy_name
from forecast.tables.formats.layout import Layout
from forecast.tables.reading import Reading
from forecast.tables.repair import DUPLICATES, MISSING, Policies
from forecast.tables.roles import OPTIONS, Roles
from forecast.tables.times.buckets import Resampling
from forecast.tables.times.time_format import TimeFormat

LARGEST_SEED = 2**32 - 1
"""Largest seed that numpy and Lightning accept."""

SYNTHETIC, DIAGNOSTIC, GENERATED, FILE = "synthetic", "diagnostic", "generated", "file"

LONGEST_NAME = 100
"""Largest number of characters of a name, which becomes part of folder and file names."""

_NAMES = ("time_column", "time_columns", *OPTIONS.values(), "categorical", "perfect_foresight", "holidays_column")
"""Options that name columns of the table."""

DATE, END = "date", "end"

ERROR, DROP = "error", "drop"

MOST_WINDOWS = 50_000
"""Most windows of validation, and of test, of a long table."""

_TAKEN = ("sweeps", "benchmark")
"""Folders under `output_dir` that are not names of data."""


@settings
class DataSettings:
    """The `data` group; its options depend on the source."""

    name: str | None = option("Name of the data in folders and titles; null: the name of the file.")
    source: str = option(
        "Source of the series: synthetic, diagnostic, generated or file.",
        choices=(SYNTHETIC, DIAGNOSTIC, GENERATED, FILE),
    )
    path: str | None = option(
        "Your table, such as my.csv or my.xlsx; null: file_name in the data folder.", default=None, only=FILE
    )
    file_name: str | None = option("Name of a file in the data folder.", default=None, only=FILE)
    url: str | None = option("Address to download file_name from; null: no download.", default=None, only=FILE)
    sha256: str | None = option("SHA-256 of the file; null: not checked, and no download.", default=None, only=FILE)
    about: str | None = option("What the file is, for the message if it is missing.", default=None, only=FILE)
    rows: int = option(
        "Rows of the simulation, or of each generated series.",
        unit="rows",
        default=0,
        least=1,
        only=(SYNTHETIC, GENERATED),
    )
    series: int = option("Generated series of the training.", unit="series", default=1, least=1, only=GENERATED)
    channels: int = option(
        "Channels of a generated series, which move together.", unit="channels", default=1, least=1, only=GENERATED
    )
    drivers: int = option(
        "Columns of a generated series that are known ahead, with a response.",
        unit="columns",
        default=0,
        least=0,
        only=GENERATED,
    )
    seed: int = option(
        "Seed of the simulation.", default=0, least=0, most=LARGEST_SEED, only=(SYNTHETIC, DIAGNOSTIC, GENERATED)
    )
    kind: str = option(
        "Structure of the series: recall, events, lag or selective; or a control: linear or level.",
        default="recall",
        choices=tuple(KINDS),
        only=DIAGNOSTIC,
    )
    windows: int = option("Generated windows.", unit="windows", default=6000, least=3, only=DIAGNOSTIC)
    window_look_back: int = option(
        "Steps of a generated window before its origin.", default=1, least=1, only=DIAGNOSTIC
    )
    window_horizon: int = option("Steps of a generated window after its origin.", default=1, least=1, only=DIAGNOSTIC)
    types: int | None = option(
        "Patterns of recall and events, lags of lag, marked steps of selective; null: 8, or none of a control.",
        default=None,
        least=1,
        only=DIAGNOSTIC,
    )
    distance: int = option(
        "The answer of recall begins n to 2 n - 1 horizons before the origin; 0: anywhere.",
        unit="horizons",
        default=0,
        least=0,
        only=DIAGNOSTIC,
    )
    unit: int | None = option(
        "Steps of an event of kind events, a divisor of the horizon; null: the horizon.",
        unit="steps",
        default=None,
        least=1,
        only=DIAGNOSTIC,
    )
    noise: float = option(
        "Standard deviation of the noise; that of the future without it is 1.", default=0.2, above=0, only=DIAGNOSTIC
    )
    delimiter: str | None = option(
        "Character between the cells of a text file, or tab; null: recognized.", default=None, only=FILE
    )
    decimal: str | None = option('Decimal mark of numbers, "." or ","; null: recognized.', default=None, only=FILE)
    thousands: str | None = option(
        """Mark of thousands in numbers, such as "." or " "; null: recognized.""", default=None, only=FILE
    )
    encoding: str | None = option("Encoding of a text file, such as cp1252; null: recognized.", default=None, only=FILE)
    header_row: int | None = option(
        "Row of the column names; null: recognized.", unit="rows", default=None, least=1, only=FILE
    )
    skip_footer: int | None = option(
        "Lines at the end that are no data; null: recognized.", unit="lines", default=None, least=0, only=FILE
    )
    columns: list[Any] | None = option("Names of all columns of a file without a header.", default=None, only=FILE)
    sheet: str | int | None = option(
        "Sheet of a workbook, its name or its number from 1; null: the first with dates.", default=None, only=FILE
    )
    time_column: str | None = option("Column of the dates; null: the only column that holds dates.")
    time_columns: list[Any] | None = option(
        "Columns that make the time together, such as [Date,Hour] or [Year,Month]; null: found.",
        default=None,
        only=FILE,
    )
    date_format: str | None = option(
        "Format of the dates, such as %d.%m.%y, epoch_s (ms, us, ns) or excel; null: recognized.",
        default=None,
        only=FILE,
    )
    time_zone: str | None = option(
        "Time zone of times without an offset, such as Europe/Berlin; null: none.", default=None, only=FILE
    )
    last_rows: int | None = option(
        "Rows at the end to use, of each series; null: all.", unit="rows", default=None, least=1, only=FILE
    )
    targets: list[Any] | None = option("Columns to forecast; null: every column that is not a covariate.")
    past_covariates: list[Any] = option("Columns that are inputs up to the start of the forecast.")
    known_covariates: list[Any] = option("Columns whose future is known, such as a weather forecast.", default=())
    id_columns: list[Any] = option(
        "Columns that identify the series of a long table, such as [store]; empty: one series.", default=(), only=FILE
    )
    split_by: str = option(
        "Splits of a long table: date (the same dates for all series), or end (counted from the end of each).",
        default=DATE,
        choices=(DATE, END),
        only=FILE,
    )
    least_context: int | None = option(
        "Fewest rows before a forecast of a series in a long table; null: a patch.",
        unit="steps",
        default=None,
        least=1,
        only=FILE,
    )
    short_series: str = option(
        "Series of a long table that are too short for a forecast: error or drop.",
        default=ERROR,
        choices=(ERROR, DROP),
        only=FILE,
    )
    static_covariates: dict[str, Any] | list[Any] | None = option(
        "Properties of the targets, region: {a: north, b: south}, or [columns] of each id; null: found.",
        default=None,
        items="columns",
    )
    id_embedding: bool = option("Whether the id of a series is an input of a long table.", default=False, only=FILE)
    categorical: list[Any] = option("Covariates whose numbers are labels; text always is.", default=())
    perfect_foresight: list[Any] = option(
        "Known covariates that were measured, not forecast; a result names them.", default=()
    )
    holidays: str | None = option(
        "Country or country-subdivision of the holidays, such as DE-BY; null: none.", default=None
    )
    holidays_column: str | None = option(
        "Column of a long table that names the place of each series, such as DE-BY; null: none.",
        default=None,
        only=FILE,
    )
    holidays_before: int = option(
        "Days before a holiday that are inputs too.", unit="days", default=0, least=0, most=MOST_DAYS
    )
    holidays_after: int = option(
        "Days after a holiday that are inputs too.", unit="days", default=0, least=0, most=MOST_DAYS
    )
    calendar: list[Any] | None = option(
        "Cycles of the calendar; null: every cycle that the training split holds twice."
    )
    frequency: str | None = option("Time between rows, such as h, 15min or D; null: inferred.")
    resample: str | None = option(
        "Longer step whose rows become one, such as 1h, 1D or MS; null: none.", default=None, only=FILE
    )
    aggregate: dict[str, Any] | None = option(
        "Value of the rows that become one: mean, sum or last by column, such as {load: sum}; null: the mean.",
        default=None,
        only=FILE,
    )
    snap: str | None = option(
        "Step to whose nearest multiple times are moved, for a clock that drifts, such as 5min; null: none.",
        default=None,
        only=FILE,
    )
    duplicates: str = option("Rows of equal time: error, mean, first or last.", choices=DUPLICATES, checked=False)
    missing: str = option(
        "Empty cells and absent rows: error, ffill, interpolate, or mask: the model knows the gaps.",
        choices=MISSING,
        checked=False,
    )
    missing_values: list[Any] = option(
        "Numbers and texts that mean an empty cell, such as [-9999,M].",
        default=(),
        items="numbers and texts",
        only=FILE,
    )
    bounds: dict[str, Any] | list[Any] | None = option(
        "Lowest and highest value of the targets, such as [0,null], or {load: [0,null]} of some; null: none.",
        default=None,
        items="two numbers",
        only=FILE,
    )
    whole_numbers: bool = option(
        "Whether a target that holds whole numbers only gets whole forecasts.", default=False, only=FILE
    )
    split: dict[str, Any] = option(
        "Shares of the rows, or numbers of rows; test 0: no test split.", unit="rows, or shares of all rows"
    )

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "DataSettings":
        """Return the checked `data` group of a configuration."""
        source = values.get("source")
        known = options_of(cls)
        if source not in known["source"].choices:
            raise InputError(f"data.source={source}: choose {' or '.join(known['source'].choices)}")
        allowed = [key for key, declared in known.items() if declared.applies_to(str(source))]
        for key in values:
            if key not in allowed:
                raise InputError(f"data.{key}: not an option of data.source={source}: choose from {', '.join(allowed)}")
        check_present(values, allowed, "data.")
        result = cls(**_with_events(_tidied(read_options(cls, values, "data"))))
        result._check_together()
        return result

    @property
    def diagnostic(self) -> Diagnostic:
        """The diagnostic series, of `source: diagnostic`."""
        sizes = {"look_back": self.window_look_back, "horizon": self.window_horizon, "windows": self.windows}
        rule: dict[str, Any] = {"distance": self.distance, "noise": self.noise, "seed": self.seed}
        return Diagnostic(kind=self.kind, types=self.types, unit=self.unit, **sizes, **rule)

    @property
    def policies(self) -> Policies:
        """The repairs of the table."""
        return Policies(self.duplicates, self.missing, tuple(self.missing_values))

    @property
    def resampling(self) -> Resampling:
        """The longer steps into which rows are put, or the step to which times are moved."""
        return Resampling.of({"resample": self.resample, "aggregate": self.aggregate, "snap": self.snap})

    @property
    def time_format(self) -> TimeFormat:
        """The layout and format of the times."""
        columns, date_format = self.time_columns, self.date_format
        return TimeFormat.of({"time_columns": columns, "date_format": date_format, "local_zone": self.time_zone})

    @property
    def layout(self) -> Layout:
        """The layout of the file, as far as it is given."""
        return Layout.of({key: getattr(self, key) for key in Layout.__dataclass_fields__})

    @property
    def roles(self) -> Roles:
        """The roles of the columns; properties of the targets are checked once the targets are known."""
        keys = {**OPTIONS, "categorical": "categorical", "perfect_foresight": "perfect_foresight"}
        named: dict[str, Any] = {role: [str(name) for name in getattr(self, key) or ()] for role, key in keys.items()}
        found = {"targets": self.targets, "fixed": self.static_columns}
        return Roles(**named | {role: None for role, given in found.items() if given is None})

    @property
    def static_columns(self) -> list[Any] | None:
        """The static covariates of the series of a long table; None: they are found."""
        return self.static_covariates if isinstance(self.static_covariates, list) else None

    @property
    def reading(self) -> Reading:
        """The way to read the table; a long table may become one series if its targets are named."""
        return Reading(
            self.time_column,
            self.time_format,
            self.frequency,
            self.policies,
            self.resampling,
            Bounds.of(self.bounds),
            last_rows=self.last_rows,
            region=self.holidays_column,
            merges_series=self.targets is not None,
            layout=self.layout,
        )

    def _check_together(self) -> None:
        """Raise InputError for values that contradict each other."""
        self._check_times()
        for key in ("holidays_before", "holidays_after"):
            if self.holidays is None and self.holidays_column is None and (days := getattr(self, key)):
                raise InputError(
                    f"data.{key}={days}: needs data.holidays: set it, such as DE-BY, or leave out data.{key}"
                )
        if self.name is None and self.path is None:
            raise InputError("data.name=null: set a name; only with data.path it can be null")
        if self.name is not None:
            check_name(self.name)
        if self.targets == []:
            raise InputError("data.targets=[]: name a column to forecast, or null for all that are not covariates")
        Bounds.of(self.bounds)
        policies, resampling = self.policies.facts(), self.resampling
        if resampling.resample is not None and self.frequency is not None:
            raise InputError(f"data.frequency={self.frequency}: data.resample sets the step: set one of them to null")
        if self.source != FILE:
            for key in ("time_column", "frequency"):
                if (value := getattr(self, key)) is not None:
                    raise InputError(f"data.{key}={value}: the simulation sets it: leave it null")
            for key, value in policies.items():
                if value != "error":
                    raise InputError(f"data.{key}={value}: the simulation has no gaps and no duplicates: keep error")
        if sorted(self.split) != ["test", "train", "validation"]:
            raise InputError(f"data.split={self.split}: must have train, validation and test")

    def _check_times(self) -> None:
        """Raise InputError for columns of the time that contradict each other or have another role."""
        columns = self.time_format.columns or ()
        if columns and self.time_column is not None:
            raise InputError("data.time_column and data.time_columns are both set: set one of them to null")
        for key in OPTIONS.values():
            if shared := [str(name) for name in getattr(self, key) or () if str(name) in columns]:
                raise InputError(f"data.{key} and data.time_columns both name {shared[0]}: choose one role")


def _with_events(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the events of a diagnostic series as a known covariate, if none is named."""
    has_events = values["source"] == DIAGNOSTIC and values["kind"] == "events"
    return values | {"known_covariates": values["known_covariates"] or [EVENT]} if has_events else values


def _tidied(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the names of columns without blanks at their ends."""
    tidied = values | {key: tidy_name(values[key]) for key in _NAMES if key in values}
    if isinstance(statics := values.get("static_covariates"), Mapping):
        named = {tidy_name(name): by_target for name, by_target in statics.items()}
        tidied["static_covariates"] = {
            name: {tidy_name(target): value for target, value in by_target.items()}
            if isinstance(by_target, Mapping)
            else by_target
            for name, by_target in named.items()
        }
    return tidied


def check_name(name: str) -> None:
    """Raise InputError for a data name that is too long, empty or has control characters."""
    if not is_plain(name):
        raise InputError(f"data.name={name!r}: has control characters: choose another name")
    if not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"data.name={name[:20]}…: has {len(name)} characters: use 1 to {LONGEST_NAME}")


def named(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with `data.name`, derived from `data.path` if it is null."""
    data = config.get("data")
    if not isinstance(data, Mapping) or data.get("name", "") is not None or not isinstance(data.get("path"), str):
        return dict(config)
    return {**config, "data": {**data, "name": name_of(Path(data["path"]))}}


def name_of(path: Path) -> str:
    """Return the data name of a file, valid for a folder: `aep_hourly` for aep_hourly.csv.gz."""
    name = path.name
    for end in ENDINGS:
        if name.lower().endswith(end):
            name = name[: -len(end)]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:LONGEST_NAME]
    return f"{plain}-data" if plain.lower() in _TAKEN else plain or "table"
