"""The `_target_` entries of a configuration: checked against a type, then built."""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from functools import partial
from pkgutil import resolve_name
from typing import Any

from forecast.common.errors import InputError, first_line

TARGET = "_target_"

OF_HYDRA = ("_partial_", "_args_", "_recursive_", "_convert_")
"""Keys that change how Hydra builds an object."""

COMPLAINTS = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError),
    *(ImportError, OSError),
)
"""Errors that a constructor raises for its options or a missing package."""


def loggers_of(group: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the node of each logger by its key: a `logger` group is a node, or has several by name, or both."""
    named = {key: value for key, value in group.items() if isinstance(value, Mapping) and TARGET in value}
    own = {key: value for key, value in group.items() if key not in named}
    return ({"logger": own} if own else {}) | {f"logger.{key}": value for key, value in named.items()}


def check_target(
    node: Mapping[str, Any], where: str, kind: type, *, functions: Collection[Callable[..., Any]] = ()
) -> None:
    """Raise InputError for a target that is neither a `kind` nor one of `functions`; `where` is the node's key."""
    name = str(node.get(TARGET))
    try:
        target = resolve_name(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise InputError(f"{where}.{TARGET}={name}: cannot be imported ({' '.join(str(error).split())})") from None
    if not (isinstance(target, type) and issubclass(target, kind)) and target not in functions:
        others = "".join(f" or {function.__name__}" for function in functions)
        package = kind.__module__.split(".")[0]
        raise InputError(f"{where}.{TARGET}={name}: must be a {kind.__name__} of {package}{others}")
    check_plain(node, where)


def check_plain(node: Mapping[str, Any], where: str) -> None:
    """Raise InputError for options that build an object inside a node or change how the node is built."""
    for key in OF_HYDRA:
        if key in node:
            raise InputError(f"{where}.{key}: is not allowed: leave it out")
    if inner := next(_inner(node, where), None):
        raise InputError(f"{inner}: no object may be built inside {where}: use plain values")


def prepared(node: Mapping[str, Any]) -> partial[Any]:
    """Return a checked node's target with its options; interpolations are not resolved."""
    options = {key: deepcopy(value) for key, value in node.items() if key != TARGET}
    return partial(resolve_name(str(node[TARGET])), **options)


def make(node: Mapping[str, Any], where: str, **settled: Any) -> Any:
    """Build a checked node's target from its options and `settled`."""
    from lightning.fabric.utilities.exceptions import (
        MisconfigurationException,
    )  # imported here: reading a run folder does not need Lightning

    try:
        return prepared(node)(**settled)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (*COMPLAINTS, MisconfigurationException) as error:
        raise InputError(f"{where}: {node[TARGET]}: {first_line(error)}") from None


def _inner(node: Any, where: str) -> Iterator[str]:
    if isinstance(node, Mapping):
        items = [(f"{where}.{key}", value) for key, value in node.items()]
    else:
        items = [(f"{where}[{place}]", value) for place, value in enumerate(node)]
    for key, value in items:
        if isinstance(value, Mapping) and TARGET in value:
            yield f"{key}.{TARGET}"
        elif isinstance(value, Mapping | list | tuple):
            yield from _inner(value, key)
