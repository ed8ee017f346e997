"""The data contract of a model: what a table must have, and how it is read and scaled, as in training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from forecast.common.text import is_plain
from forecast.data.calendar import calendar_features, future_index
from forecast.data.holidays import Holidays, Places
from forecast.data.known import KnownEncoder, KnownLayout, Labels, known_inputs
from forecast.data.scaler import Scaler, SeriesScaler
from forecast.data.settings import DROP
from forecast.data.static import Static
from forecast.tables.bounds import Bounds
from forecast.tables.formats.layout import Layout
from forecast.tables.reading import Reading
from forecast.tables.repair import Policies
from forecast.tables.roles import Roles
from forecast.tables.times.buckets import Resampling
from forecast.tables.times.clock import Clock
from forecast.tables.times.time_format import TimeFormat


@dataclass(frozen=True)
class DataContract:
    """What a model needs of a table; `to_dict` is the entries "data" and "scaler" of a manifest.

    Parameters
    ----------
    roles
        The roles of the columns of training.
    reading
        The times, the step and the repairs of training.
    clock
        The time zone of training.
    scaler
        The z-scores of the channels.
    context_length, horizon
        T and h, in steps.
    cycles
        Calendar cycles that are inputs.
    encoder
        Encoding of the covariates that are not channels.
    holidays
        Holidays that are inputs; None: none are.
    shown
        The step of most training rows if it differs from that of the series, else None.
    merged
        Columns that identified the series of a long table, which training merged.
    unread
        Known covariates of training that the forecast does not depend on: a table may lack them.
    least_context
        Fewest rows of a series of a panel; None: one series.
    drops_short
        Whether a forecast leaves out shorter series of a panel, as training did; else it refuses them.
    whole
        Targets whose forecasts are whole numbers.
    static
        The static inputs of the series of a panel.

    Raises
    ------
    ValueError
        If the parts contradict each other, as in a manifest that was edited by hand.
    """

    roles: Roles
    reading: Reading
    clock: Clock
    scaler: Scaler | SeriesScaler = field(repr=False)
    context_length: int
    horizon: int
    cycles: list[str] = field(default_factory=list)
    encoder: KnownEncoder = field(default_factory=KnownEncoder, repr=False)
    holidays: Holidays | None = None
    shown: str | None = None
    merged: Sequence[str] = ()
    unread: list[str] = field(default_factory=list)
    least_context: int | None = None
    drops_short: bool = False
    whole: list[str] = field(default_factory=list)
    static: Static = field(default_factory=Static, repr=False)

    def __post_init__(self) -> None:
        lists = {"static_covariates": self.roles.fixed or [], "unread": self.unread, "cycles": self.cycles}
        for key, value in (self.roles.named | lists).items():
            if not isinstance(value, list):
                raise ValueError(f"{key} is not a list")
        reading, scaler = self.reading, self.scaler
        columns = [*self.columns, *self.unread, *(reading.time_format.columns or ())]
        names: list[object] = [*columns, *self.cycles, reading.time_column, reading.frequency]
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise ValueError(f"{wrong[0]!r} is not a name")
        if wrong := [name for name in names if not is_plain(str(name))]:
            raise ValueError(f"{wrong[0]!r} has control characters")
        if len(set(self.cycles)) < len(self.cycles):  # a million of them would take minutes
            raise ValueError("it names a calendar cycle twice")
        if reading.last_rows is not None and (type(reading.last_rows) is not int or reading.last_rows < 1):
            raise ValueError(f"last_rows {reading.last_rows!r} is not a number of rows")
        if not isinstance(self.whole, list) or not set(self.whole) <= set(self.targets):
            raise ValueError("whole_numbers names other columns than targets")
        if list(scaler.columns) != self.channels:
            raise ValueError("the scaler has other columns")
        known = sorted([*self.known, *self.unread])
        if sorted(self.encoder.known) != known or not set(self.encoder.past_categories) <= set(self.roles.past):
            raise ValueError("the encoder has other columns")
        num_ids = self.static.num_ids
        if sorted(self.static.columns) != sorted(self.roles.fixed or ()) or num_ids not in (0, len(scaler.mean)):
            raise ValueError("the static covariates have other columns, or other ids")
        if not (np.isfinite(scaler.mean).all() and np.isfinite(scaler.scale).all() and (scaler.scale > 0).all()):
            raise ValueError("the scaler is not finite or not positive")

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], context_length: int, horizon: int) -> "DataContract":
        """Return the contract of a `to_dict` state; raise an error for values that no contract has."""
        data, scales = state["data"], state["scaler"]
        holidays = Holidays.from_dict(data["holidays"]) if "holidays" in data else None
        scaler = SeriesScaler.from_dict(scales) if "names" in scales else Scaler.from_dict(scales)
        reading = Reading(
            time_column=data["time_column"],
            time_format=TimeFormat.of(data),
            frequency=data["frequency"],
            layout=Layout.of(data.get("layout", {})),
            policies=Policies.of(data),
            resampling=Resampling.of(data),
            bounds=Bounds.of(data.get("bounds")),
            last_rows=data.get("last_rows"),
            merges_series=bool(data.get("merged")),
            region=None if holidays is None else holidays.column,
        )
        return cls(
            Roles.of(data),
            reading,
            Clock.of_facts(data),
            scaler,
            context_length,
            horizon,
            cycles=data["cycles"],
            encoder=KnownEncoder.from_dict(data["encoder"]) if "encoder" in data else KnownEncoder(),
            holidays=holidays,
            shown=data.get("shown_frequency"),
            merged=data.get("merged", ()),
            unread=data.get("unread", []),
            least_context=data.get("least_context"),
            drops_short=data.get("short_series") == DROP,
            whole=data.get("whole_numbers", []),
            static=Static.from_dict(data.get("static")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the contract as plain values; an entry that a table does not need is absent."""
        reading, encoder = self.reading, self.encoder
        some = {
            "encoder": encoder.to_dict() if encoder.known or encoder.past_categories else None,
            "holidays": None if self.holidays is None else self.holidays.to_dict(),
            "unread": self.unread or None,
            "least_context": self.least_context,
            "short_series": DROP if self.drops_short else None,
            "bounds": self.reading.bounds.fact(),
            "whole_numbers": self.whole or None,
            "static": self.static.to_dict(),
        }
        steps = {
            "shown_frequency": self.shown,
            "merged": list(self.merged) or None,
            "last_rows": reading.last_rows,
            "layout": reading.layout.facts() or None,
        }
        data = {
            **self.roles.facts(),
            **_present(some),
            "time_column": reading.time_column,
            "frequency": reading.frequency,
            **_present(steps),
            **reading.time_format.facts(),
            **reading.resampling.facts(),
            **self.clock.facts(),
            "cycles": self.cycles,
            **reading.policies.facts(),
        }
        return {"data": data, "scaler": self.scaler.to_dict()}

    @property
    def targets(self) -> list[str]:
        """Columns to forecast."""
        assert self.roles.targets is not None
        return self.roles.targets

    @property
    def known(self) -> list[str]:
        """Known covariates that the forecast depends on."""
        return [name for name in self.roles.known if name not in self.unread]

    @property
    def covariates(self) -> list[str]:
        """Columns that a table must have and that are not targets."""
        return [*self.roles.past, *self.known]

    @property
    def columns(self) -> list[str]:
        """Columns that a table must have, the targets first."""
        return [*self.targets, *self.covariates]

    @property
    def roles_to_read(self) -> Roles:
        """The roles with which a table is read: text is refused where training read numbers."""
        named = [*self.categorical, *self.static.encoder.categories]
        numeric = [*(name for name in self.covariates if name not in named), *self.static.encoder.numbers]
        fixed = self.roles.fixed or []
        return Roles(self.targets, self.roles.past, self.known, named, numeric, ids=self.roles.ids, fixed=fixed)

    @property
    def categorical(self) -> list[str]:
        """Categorical columns that a table must have."""
        return [name for name in self.encoder.categorical if name not in self.unread]

    @property
    def channels(self) -> list[str]:
        """Columns whose past values the model reads as numbers, in its order, the targets first."""
        return [*self.targets, *(name for name in self.roles.past if name not in self.encoder.past_categories)]

    @property
    def frequency(self) -> str:
        """Step of the series, a pandas alias."""
        assert self.reading.frequency is not None
        return self.reading.frequency

    @property
    def time_column(self) -> str:
        """Name of the time column."""
        assert self.reading.time_column is not None
        return self.reading.time_column

    @property
    def policies(self) -> Policies:
        """The repairs of training."""
        return self.reading.policies

    @property
    def least_rows(self) -> int:
        """Number of rows that a table must have: the look-back, or half of it if the model masks missing steps."""
        return -(-self.context_length // 2) if self.policies.masks_past else self.context_length

    def known_inputs(
        self, times: pd.DatetimeIndex, frame: pd.DataFrame, labels: Labels, places: Places | None = None
    ) -> np.ndarray:
        """Return the known inputs (N, F) of rows at these times, on the clock of training, at the `places` of rows."""
        return known_inputs(times, self.cycles, self.encoder, frame, labels, self.holidays, places)

    @property
    def layout(self) -> KnownLayout:
        """The columns of the known inputs, without a look-back."""
        calendar = calendar_features(future_index(pd.Timestamp(0), self.frequency, 1), self.cycles).shape[1]
        return self.encoder.layout(calendar, 0 if self.holidays is None else len(self.holidays.columns))


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries whose value is not None."""
    return {key: value for key, value in values.items() if value is not None}
