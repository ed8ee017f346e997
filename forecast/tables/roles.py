"""Roles of the columns of a table: targets, covariates of the past, known covariates, and properties of the targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from forecast.common.errors import InputError
from forecast.tables.files import tidy_name
from forecast.tables.numbers import LARGEST_NUMBER

OPTIONS = {
    "targets": "targets",
    "past": "past_covariates",
    "known": "known_covariates",
    "ids": "id_columns",
    "fixed": "static_covariates",
}
"""Roles that a column has alone, with their options in `data`, which are also their keys in a manifest."""

_MAY_BE_ABSENT = ("known", "ids", "fixed")
"""Roles that a manifest leaves out if no column has them."""

USUAL_IDS = ("unique_id", "item_id", "series_id")
"""Names by which a column of ids is found in a long table: those of Nixtla, of GluonTS and fev, and of others."""

PAST, KNOWN = (f"data.{OPTIONS[role]}" for role in ("past", "known"))
"""Options of the covariates, for messages."""


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of a table.

    Parameters
    ----------
    targets
        Columns to forecast, in order; None: every column that is not a covariate.
    past
        Covariates that are inputs up to the start of the forecast.
    known
        Covariates whose future is known, inputs of the horizon too.
    categorical
        Covariates whose numbers are labels; those with text are, unless they are `numeric`.
    numeric
        Covariates in which a trained model reads numbers; their text is refused.
    perfect_foresight
        Known covariates that were measured, not forecast.
    static
        Properties of the targets: a list for each, with a value for each target.
    ids
        Columns that identify the series of a row in a panel; empty for a table of one series.
    fixed
        Columns with one value for each series of a panel, its static covariates; None: those that are found.
    """

    targets: list[str] | None = None
    past: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    numeric: list[str] = field(default_factory=list)
    perfect_foresight: list[str] = field(default_factory=list)
    static: Mapping[str, list[Any]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    fixed: list[str] | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Roles":
        """Return the roles that the manifest of a run names; it names no known covariates and no ids if none are."""
        named = {role: values.get(key, []) if role in _MAY_BE_ABSENT else values[key] for role, key in OPTIONS.items()}
        return cls(**{**named, "fixed": named["fixed"] or None})

    def facts(self) -> dict[str, Any]:
        """Return the entries of a manifest; known covariates and ids only if there are some."""
        absent = [OPTIONS[role] for role in _MAY_BE_ABSENT if not getattr(self, role)]
        return {key: names for key, names in self.named.items() if key not in absent}

    @property
    def named(self) -> dict[str, Any]:
        """The columns of each option that gives a column its role."""
        return {key: getattr(self, role) for role, key in OPTIONS.items()}

    @property
    def covariates(self) -> list[str]:
        """Columns that are not targets."""
        return [*self.past, *self.known]

    @property
    def columns(self) -> list[str] | None:
        """Columns with a role, the targets first; None if every column has one."""
        return None if self.targets is None else [*self.targets, *self.covariates]

    def tidied(self) -> "Roles":
        """Return the roles with column names without blanks at their ends."""
        names = {key: tidy_name(list(value)) for key, value in vars(self).items() if value and key != "static"}
        return replace(self, **names)

    def check(self) -> None:
        """Raise InputError for a column with two roles, one that is named twice, or one that lacks the needed role."""
        given = {key: names or [] for key, names in self.named.items()}
        for key, names in given.items():
            _check_once(key, names)
        for (key, names), (other, others) in combinations(given.items(), 2):
            if shared := sorted(set(names) & set(others)):
                raise InputError(f"data.{key} and data.{other} both name {', '.join(shared)}: choose one role")
        _check_among("categorical", self.categorical, [*self.covariates, *(self.fixed or ())], "a covariate")
        _check_among("perfect_foresight", self.perfect_foresight, self.known, "a known covariate")


def _check_once(key: str, names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"data.{key} names {', '.join(twice)} twice: name each column once")


def _check_among(key: str, names: Sequence[str], covariates: Sequence[str], what: str) -> None:
    """Raise InputError for a name of an option that is not one of `covariates`."""
    _check_once(key, names)
    for name in names:
        if name not in covariates:
            listed = f"only {', '.join(covariates)}" if covariates else "there is none"
            raise InputError(f"data.{key}: {name!r} is not {what}, {listed}: correct the name")


def static_values(static: Mapping[str, Any], targets: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each static covariate in the order of the targets; raise InputError for a bad one."""
    result = {}
    for name, values in static.items():
        key = f"data.static_covariates.{name}"
        if not isinstance(values, Mapping):
            raise InputError(f"{key}={values}: must name a value for each target, as {{{targets[0]}: 1}}")
        values = {str(target): value for target, value in values.items()}  # on the command line 0 is a number
        for target in targets:
            if target not in values:
                raise InputError(f"{key}: no value for the target {target!r}: give one for each target")
        for target in values:
            if target not in targets:
                raise InputError(f"{key}: {target!r} is not a target, only {', '.join(targets[:12])}: correct the name")
        result[str(name)] = [values[target] for target in targets]
        _check_static(key, result[str(name)])
    if result and len(targets) == 1:
        raise InputError(
            f"data.static_covariates: with the single target {targets[0]!r} they are constant: they need two targets"
        )
    for name, values in result.items():
        if len(set(values)) == 1:
            raise InputError(f"data.static_covariates.{name}: is the same for every target: leave it out")
    return result


def _check_static(key: str, values: Sequence[Any]) -> None:
    """Raise InputError for values of several kinds, or numbers beyond float32."""
    kinds = {float if type(value) is int else type(value) for value in values}
    if len(kinds) > 1 or not kinds <= {bool, float, str}:
        raise InputError(f"{key}: must be all numbers, all true and false, or all text")
    if float in kinds and (large := [value for value in values if not abs(value) <= LARGEST_NUMBER]):
        raise InputError(f"{key}: {large[0]:g} is no number of float32: correct it, or use a larger unit")
