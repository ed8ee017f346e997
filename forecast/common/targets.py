"""The `_target_` entries of a configuration: checked against a kind, then made."""

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
"""Errors of a constructor about its options, or about a missing package."""


def check_target(
    node: Mapping[str, Any], where: str, kind: type, *, functions: Collection[Callable[..., Any]] = ()
) -> None:
    """Refuse a target that is neither a `kind` nor one of `functions`; `where` is the node's key, for messages."""
    name = str(node.get(TARGET))
    try:
        found = resolve_name(name)
    except (ImportError, ValueError, AttributeError) as error:
        raise InputError(f"{where}.{TARGET}={name}: is not there ({' '.join(str(error).split())})") from None
    if not (isinstance(found, type) and issubclass(found, kind)) and found not in functions:
        own = "".join(f", nor {function.__name__}" for function in functions)
        package = kind.__module__.split(".")[0]
        raise InputError(f"{where}.{TARGET}={name}: is no {kind.__name__.lower()} of {package}{own}")
    check_plain(node, where)


def check_plain(node: Mapping[str, Any], where: str) -> None:
    """Refuse options that would build an object within a node, or build the node in another way."""
    for key in OF_HYDRA:
        if key in node:
            raise InputError(f"{where}.{key}: is settled here: leave it out")
    if inner := next(_inner(node, where), None):
        raise InputError(f"{inner}: nothing is made within {where}: give plain values")


def prepared(node: Mapping[str, Any]) -> partial[Any]:
    """Return a checked node's target with its options, used as they are: no interpolation is resolved."""
    options = {key: deepcopy(value) for key, value in node.items() if key != TARGET}
    return partial(resolve_name(str(node[TARGET])), **options)


def make(node: Mapping[str, Any], where: str, **settled: Any) -> Any:
    """Build a checked node's target from its options and those given here."""
    from lightning.fabric.utilities.exceptions import MisconfigurationException  # here: reading a folder needs none

    try:
        return prepared(node)(**settled)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (*COMPLAINTS, MisconfigurationException) as error:
        raise InputError(f"{where}: {node[TARGET]}: {first_line(error)}") from None


def _inner(node: Any, where: str) -> Iterator[str]:
    if isinstance(node, Mapping):
        pieces = [(f"{where}.{key}", value) for key, value in node.items()]
    else:
        pieces = [(f"{where}[{place}]", value) for place, value in enumerate(node)]
    for key, value in pieces:
        if isinstance(value, Mapping) and TARGET in value:
            yield f"{key}.{TARGET}"
        elif isinstance(value, Mapping | list | tuple):
            yield from _inner(value, key)
