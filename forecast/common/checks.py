"""Whether plain values fit what a function or a dataclass declares, said in the user's own terms."""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from forecast.common.errors import InputError


def check_options(declared: Callable[..., Any], options: Mapping[str, Any], group: str) -> None:
    """Compare `options` with the plain types (int, float, bool, str, None, unions) that `declared` annotates.

    An int counts as a float; a bool is no number.

    Raises
    ------
    InputError
        Naming the key, the value and what it should be.
    """
    hints = get_type_hints(declared)
    for key, value in options.items():
        if key not in hints:
            raise InputError(f"{group}.{key}: no such option: choose from {', '.join(sorted(hints))}")
        kinds = _kinds(hints[key])
        if not any(_fits(value, kind) for kind in kinds):
            names = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
            raise InputError(f"{group}.{key}={value}: must be {names}")


def check_least(value: float, least: float, key: str) -> None:
    """Refuse a value below `least`.

    Raises
    ------
    InputError
        Naming the key and the bound.
    """
    if not value >= least:
        raise InputError(f"{key}={value}: must be at least {least}")


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if isinstance(hint, UnionType) else (get_origin(hint) or hint,)


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
