"""What a `_target_` of the configuration names, looked at before any of it is called."""

from collections.abc import Callable, Collection, Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

from forecast.errors import InputError

TARGET = "_target_"


def check_target(
    node: Mapping[str, Any], where: str, kind: type, *, functions: Collection[Callable[..., Any]] = ()
) -> None:
    """Refuse what is no `kind`, nor one of `functions`: a run folder from somebody else may name anything.

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
    if "_partial_" in node:
        raise InputError(f"{where}._partial_: is settled here: leave it out")
    if inner := next(_inner(node, where), None):
        raise InputError(f"{inner}: nothing is made within {where}: give plain values")


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
