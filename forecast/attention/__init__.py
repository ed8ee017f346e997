"""Attention mechanisms, one per file. A new one needs `forecast/attention/foo.py` and `conf/attention/foo.yaml`."""

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any, get_args, overload

from forecast.attention._costs import is_costs
from forecast.attention._masks import mask_from_lengths, masked_softmax
from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention.base import Attention, CausalAbility, Invariance
from forecast.common.errors import InputError

__all__ = ["MultiHeadAttention", "available", "build", "check_arguments", "find", "mask_from_lengths", "masked_softmax"]

_NOT_MECHANISMS = {"base"}
_FROM_THE_LAYER = {"num_heads", "head_dim", "causal", "max_key_length"}


def available() -> list[str]:
    """Return the sorted names of the mechanisms: the modules of this folder except `base` and helpers (`_name`)."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_") and name not in _NOT_MECHANISMS)


@overload
def build(
    name: str, *, d_model: int, num_heads: int, causal: bool = ..., max_key_length: int | None = ..., **arguments: Any
) -> MultiHeadAttention: ...


@overload
def build(
    name: str, *, num_heads: int, head_dim: int, causal: bool = ..., max_key_length: int | None = ..., **arguments: Any
) -> Attention: ...


def build(
    name: str,
    *,
    num_heads: int,
    d_model: int | None = None,
    head_dim: int | None = None,
    causal: bool = False,
    max_key_length: int | None = None,
    **arguments: Any,
) -> Attention | MultiHeadAttention:
    """Build a layer of multi-head attention with the mechanism `name`, or the mechanism alone.

    Parameters
    ----------
    name
        One of `available()`.
    num_heads
        Number of heads H.
    d_model
        Width of the tokens: returns a layer that maps query, key and value (B, L, d_model) to (B, L, d_model).
        Arguments that are not given are those of `conf/attention/<name>.yaml`.
    head_dim
        Width of one head; None: d_model / H. Without `d_model`, returns the mechanism alone, with the arguments that
        are given.
    causal, max_key_length
        As for `Attention`.
    **arguments
        Keys of `conf/attention/<name>.yaml` except `name`.

    Returns
    -------
    MultiHeadAttention or Attention
        The layer, or the mechanism.

    Raises
    ------
    InputError
        If the name or an argument is unknown, an argument is missing or out of range, the mechanism cannot be causal,
        or its class declares no costs or an unknown causal ability.

    Examples
    --------
    >>> layer = build("probsparse", d_model=64, num_heads=4, factor=3)
    >>> tokens = torch.randn(8, 96, 64)
    >>> layer(tokens, tokens, tokens).shape
    torch.Size([8, 96, 64])
    """
    own = {"num_heads": num_heads, "causal": causal, "max_key_length": max_key_length}
    if d_model is None:
        if head_dim is None:
            raise InputError(f"attention={name}: give d_model for a layer, or head_dim for the mechanism alone")
        return _mechanism(name, arguments, head_dim=head_dim, **own)
    if head_dim is None and d_model % num_heads:
        raise InputError(f"d_model {d_model} is not divisible by num_heads {num_heads}: set head_dim")
    width = d_model // num_heads if head_dim is None else head_dim
    mechanism = _mechanism(name, {**defaults(name), **arguments}, head_dim=width, **own)
    return MultiHeadAttention(d_model, num_heads, mechanism, head_dim=width)


def defaults(name: str) -> dict[str, Any]:
    """Return the arguments of a mechanism in `conf/attention/<name>.yaml`."""
    from forecast.common.conf_files import configuration_folder, load_choice

    find(name)
    values = load_choice(configuration_folder() / "attention" / f"{name}.yaml")
    return {str(key): value for key, value in values.items() if key != "name"}


def _mechanism(name: str, arguments: Mapping[str, Any], **own: Any) -> Attention:
    """Build a mechanism from its arguments and those of the layer."""
    mechanism = find(name)
    parameters = {
        parameter.name: parameter
        for parameter in inspect.signature(mechanism).parameters.values()
        if parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    }
    known = set(parameters) - _FROM_THE_LAYER
    required = {name for name in known if parameters[name].default is inspect.Parameter.empty}
    if unknown := sorted(set(arguments) - known):
        takes = ", ".join(sorted(known)) or "no arguments"
        raise InputError(f"attention={name} has no argument {', '.join(unknown)}: it takes {takes}")
    if missing := sorted(required - set(arguments)):
        raise InputError(
            f"attention={name} needs {', '.join(missing)}: conf/attention/{name}.yaml has the usual values"
        )
    return mechanism(**own, **arguments)


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise InputError if `arguments` contain one that the layer sets, such as `num_heads`."""
    if decided := sorted(_FROM_THE_LAYER & set(arguments)):
        raise InputError(f"attention.{decided[0]}: the model sets it, not the mechanism: see conf/model/")


def find(name: str) -> type[Attention]:
    """Return the class of the mechanism `name`; raise InputError if it is unknown or incomplete."""
    # Only modules of this folder are imported: a configuration cannot name a dotted path.
    if name not in available():
        raise InputError(f"attention={name} does not exist: choose one of {', '.join(available())}")
    module = importlib.import_module(f"{__name__}.{name}")
    mechanisms = [
        member
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, Attention) and member.__module__ == module.__name__
    ]
    if len(mechanisms) != 1:
        raise InputError(
            f"attention={name}: forecast/attention/{name}.py must define one subclass of Attention, "
            f"it defines {len(mechanisms)}"
        )
    _check_declarations(name, mechanisms[0])
    return mechanisms[0]


def _check_declarations(name: str, mechanism: type[Attention]) -> None:
    for attribute in ("time_cost", "memory_cost"):
        if not is_costs(getattr(mechanism, attribute, None)):
            example = "such as Cost(length=2, width=1) for O(L² E)"
            raise InputError(f"attention={name}: {mechanism.__name__} declares no {attribute}, {example}")
    if mechanism.causal_ability not in get_args(CausalAbility):
        raise InputError(
            f"attention={name}: causal_ability must be one of {', '.join(get_args(CausalAbility))}, "
            f"not {mechanism.causal_ability!r}"
        )
    if unknown := [each for each in mechanism.invariances if each not in get_args(Invariance)]:
        raise InputError(
            f"attention={name}: invariances must be among {', '.join(get_args(Invariance))}, not {unknown[0]!r}: "
            "declare a tuple, such as ('order of keys',)"
        )
