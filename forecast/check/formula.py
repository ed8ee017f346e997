"""The plain formula in a mechanism's file: `formula(query, key, value, allowed, **arguments)`.

It returns the output (B, H, L, V) for float64 query (B, H, L, E), key (B, H, S, E) and value (B, H, S, V). `allowed`,
boolean, (B, 1, L, S), is True where a query may attend to a key; each query has at least one. The arguments are those
of the YAML file, and the parameters and buffers of the mechanism by their names.
"""

import dis
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType

import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.common.errors import InputError

Formula = Callable[..., Tensor]

NAME = "formula"
PROGRAM = "forecast"

# Builtins by which a function could reach what its code does not name.
INDIRECT = {"__import__", "compile", "eval", "exec", "getattr", "globals", "locals", "vars"}


def read_formula(kind: type[Attention]) -> Formula | None:
    """Return the function `formula` in the file of a mechanism; None if the file has none.

    Raises
    ------
    InputError
        If it is no plain function of that file, or its code refers to anything of the program.
    """
    if not has_formula(kind):
        return None
    function = getattr(sys.modules[kind.__module__], NAME)
    if not isinstance(function, FunctionType) or function.__module__ != kind.__module__:
        raise InputError(f"{NAME} must be a function that is defined in the file of the mechanism")
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        raise InputError(f"{NAME} must have no default values, and be defined at the top level of the file")
    if foreign := list(dict.fromkeys(_names_of_the_program(function))):
        raise InputError(
            f"{NAME} refers to {', '.join(foreign)}: it may use only its arguments, torch and the standard library, "
            "so that it cannot share a mistake with the mechanism: write out the equation"
        )
    return function


def has_formula(kind: type[Attention]) -> bool:
    """Return whether the file of a mechanism has a formula."""
    return hasattr(sys.modules[kind.__module__], NAME)


def _names_of_the_program(function: FunctionType) -> Iterator[str]:
    """Yield the names in the code of a function that stand for something of this program."""
    for operation, name in _global_names(function.__code__):
        if operation.startswith("IMPORT"):
            if name.split(".")[0] in (PROGRAM, "", "importlib"):
                yield name
        elif name in INDIRECT or (name in function.__globals__ and _is_of_the_program(function.__globals__[name])):
            yield name


def _global_names(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yield operation and name wherever code, or code within it, loads a global name or imports a module."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "IMPORT_NAME"):
            yield instruction.opname, str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _is_of_the_program(value: object) -> bool:
    """Return whether a global is of this program; constants count as such, since the mechanism may use them too."""
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] in (PROGRAM, "importlib", "sys")
    module = getattr(value, "__module__", None)
    return not isinstance(module, str) or module.split(".")[0] == PROGRAM


def pairs_allowed(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Return which query may attend to which key, (B, 1, L, S), for a mask (B, S) or (B, L, S)."""
    length, num_keys = query.shape[2], key.shape[2]
    allowed = torch.ones(query.shape[0], 1, length, num_keys, dtype=torch.bool, device=query.device)
    if mask is not None:
        allowed &= mask[:, None] if mask.ndim == 3 else mask[:, None, None]
    if causal:
        position = torch.arange(num_keys, device=query.device)
        allowed &= position <= position[:length, None]
    return allowed
