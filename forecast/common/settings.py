"""Options of a configuration: each field of a settings class declares a meaning, a unit and a range."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from forecast.common.errors import InputError

MOST = 2**53
"""Largest whole number that an option accepts."""

T = TypeVar("T")

_METADATA = "option"


@dataclass(frozen=True)
class Option:
    """Documentation and range of one option.

    `about` says what it sets, `unit` the unit (empty for none), `null` what null means, `items` what a list's items
    are. `least`/`most` are inclusive and `above`/`below` exclusive bounds; a number without an upper bound must be
    finite. `choices` are the only values; if not `checked`, other code refuses the rest. `only` names the
    sources of data with this option, None for all.
    """

    about: str
    unit: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    choices: Sequence[str] = ()
    checked: bool = True
    null: str = "null"
    items: str = "names"
    only: str | tuple[str, ...] | None = None

    @property
    def comment(self) -> str:
        """The meaning as a comment: it begins in lower case, unless with a name, and has no final stop."""
        first = self.about[:1] if self.about[1:2].isupper() else self.about[:1].lower()
        return first + self.about[1:].removesuffix(".")

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of data with this option; empty for all."""
        return (self.only,) if isinstance(self.only, str) else self.only or ()

    def applies_to(self, source: str) -> bool:
        """Return whether a source of data has this option."""
        return self.only is None or source in self.sources

    @property
    def has_bounds(self) -> bool:
        """Whether the option has a range."""
        return any(bound is not None for bound in (self.least, self.above, self.most, self.below))

    def holds(self, value: float) -> bool:
        """Return whether `value` is in the range."""
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and value < (float("inf") if self.below is None else self.below)
        )

    def range_text(self, kinds: Collection[Any]) -> str:
        """Return the range in words, as `at least 1` or `above 0 and finite, or null`."""
        words = (("at least", self.least), ("above", self.above), ("at most", self.most), ("below", self.below))
        texts = [f"{word} {bound}" for word, bound in words if bound is not None]
        if float in kinds and self.most is None and self.below is None:
            texts.append("finite")
        return " and ".join(texts) + (f", or {self.null}" if NoneType in kinds else "")


def option(about: str, *, default: Any = MISSING, **rest: Any) -> Any:
    """Return a field of a settings class; `rest` are the parameters of `Option`."""
    return field(default=default, metadata={_METADATA: Option(about, **rest)})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def settings(declared: type[T]) -> type[T]:
    """Make a frozen dataclass from a class whose fields are options."""
    return dataclass(frozen=True, kw_only=True)(declared)


def options_of(declared: Any) -> dict[str, Option]:
    """Return the options of a settings class by name."""
    return {item.name: item.metadata[_METADATA] for item in fields(declared) if _METADATA in item.metadata}


def read_options(declared: Any, values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return the values of a group, checked against the types and ranges that a settings class declares.

    An option with a default may be absent. `group` is its name in messages, empty at the root.
    """
    prefix = f"{group}." if group else ""
    known, hints = options_of(declared), get_type_hints(declared)
    check_options(declared, values, group)
    required = (item.name for item in fields(declared) if item.name in known and item.default is MISSING)
    check_present(values, required, prefix)
    for key, value in values.items():
        _check_range(known[key], value, kinds_of(hints[key]), f"{prefix}{key}")
    return dict(values)


def _check_range(declared: Option, value: Any, kinds: tuple[Any, ...], key: str) -> None:
    if value is None:
        return
    if declared.choices and declared.checked and value not in declared.choices:
        choices = f"{', '.join(declared.choices[:-1])} or {declared.choices[-1]}"
        raise InputError(f"{key}={value}: choose {choices}")
    if declared.has_bounds and not declared.holds(value):
        raise InputError(f"{key}={value}: must be {declared.range_text(kinds)}")


def check_options(declared: Callable[..., Any], values: Mapping[str, Any], group: str) -> None:
    """Check values against the plain types (int, float, bool, str, list, dict, None, unions) that `declared` annotates.

    An int counts as a float; a bool does not count as a number.
    """
    prefix = f"{group}." if group else ""
    hints = get_type_hints(declared)
    for key, value in values.items():
        if key not in hints:
            raise InputError(f"{prefix}{key}: no such option: choose from {', '.join(sorted(hints))}")
        kinds = kinds_of(hints[key])
        if not any(_fits(value, kind) for kind in kinds):
            if list in kinds:
                items = options_of(declared)[key].items
                raise InputError(f"{prefix}{key}={value}: must be a list of {items}, {prefix}{key}=[{value}]")
            words = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
            raise InputError(f"{prefix}{key}={value}: must be {words}")
        if isinstance(value, int) and abs(value) > MOST:
            raise InputError(f"{prefix}{key}={value}: must be at most {MOST:,}")


def check_present(values: Mapping[str, Any], keys: Iterable[str], prefix: str) -> None:
    """Raise InputError if one of `keys` is missing."""
    for key in keys:
        if key not in values:
            raise InputError(f"{prefix}{key}: is missing: set it, every run needs it")


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the plain classes of an annotation, NoneType for None."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(get_origin(kind) or kind for kind in kinds)


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
