"""Options: their ranges, their types on a command line, and the `_target_` entries of a configuration."""

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from functools import partial
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from forecast.common.errors import InputError, first_line

MOST = 2**53
"""What a whole number may be: none that counts anything is larger."""


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
        if isinstance(value, int) and abs(value) > MOST:
            raise InputError(f"{group}.{key}={value}: must be at most {MOST:,}")


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


def positive(text: str) -> int:
    """Read an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def seconds(text: str) -> float:
    """Read a number of seconds, at least 0."""
    value = float(text)
    if not value >= 0:
        raise ValueError
    return value


def minutes(text: str) -> float:
    """Read a number of minutes, above 0 and finite."""
    return gibibytes(text)


def gibibytes(text: str) -> float:
    """Read an amount of memory, above 0 and finite."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


def share(text: str) -> float:
    """Read a share, above 0 and at most 1."""
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


def window(text: str) -> tuple[int, int]:
    """Read a look-back and a horizon, `336:168`."""
    look_back, _, horizon = text.partition(":")
    return positive(look_back), positive(horizon)


# as argparse complains
positive.__name__ = "integer of at least 1"
minutes.__name__ = "number of minutes above 0"
seconds.__name__ = "number of seconds"
gibibytes.__name__ = "number of GiB above 0"
share.__name__ = "number above 0 and at most 1"
window.__name__ = "look-back:horizon"


TARGET = "_target_"

OF_HYDRA = ("_partial_", "_args_", "_recursive_", "_convert_")
"""Keys by which Hydra would make something in another way."""

COMPLAINTS = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError),
    *(ImportError, OSError),
)
"""What a constructor raises about its options, or about a package that it needs."""


def check_target(
    node: Mapping[str, Any], where: str, kind: type, *, functions: Collection[Callable[..., Any]] = ()
) -> None:
    """Refuse a target that is no `kind`, nor one of `functions`.

    Parameters
    ----------
    node
        Options with a `_target_`, from which something is to be made.
    where
        The key of `node`, for the messages.

    Raises
    ------
    InputError
        If the target is not there, is of another kind, or something else is to be made within it.
    """
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
    """Refuse options that would make something within a node, or make the node in another way.

    Raises
    ------
    InputError
        Naming the key.
    """
    for key in OF_HYDRA:
        if key in node:
            raise InputError(f"{where}.{key}: is settled here: leave it out")
    if inner := next(_inner(node, where), None):
        raise InputError(f"{inner}: nothing is made within {where}: give plain values")


def prepared(node: Mapping[str, Any]) -> partial[Any]:
    """Return what a checked node names, with the node's other values as its options.

    The values are taken as they are: no interpolation is resolved in them.
    """
    options = {key: deepcopy(value) for key, value in node.items() if key != TARGET}
    return partial(resolve_name(str(node[TARGET])), **options)


def make(node: Mapping[str, Any], where: str, **settled: Any) -> Any:
    """Make what a checked node names, of its values and of those that are settled here.

    Raises
    ------
    InputError
        With the constructor's complaint.
    """
    from lightning.fabric.utilities.exceptions import MisconfigurationException  # here: reading a folder needs none

    try:
        return prepared(node)(**settled)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (*COMPLAINTS, MisconfigurationException) as error:
        raise InputError(f"{where}: {node[TARGET]}: {first_line(error)}") from None


def _inner(node: Any, where: str) -> Iterator[str]:
    """Yield the keys below `node` that name a target of their own."""
    if isinstance(node, Mapping):
        pieces = [(f"{where}.{key}", value) for key, value in node.items()]
    else:
        pieces = [(f"{where}[{place}]", value) for place, value in enumerate(node)]
    for key, value in pieces:
        if isinstance(value, Mapping) and TARGET in value:
            yield f"{key}.{TARGET}"
        elif isinstance(value, Mapping | list | tuple):
            yield from _inner(value, key)
