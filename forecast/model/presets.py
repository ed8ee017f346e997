"""The two ways in which the parts are put together, each a function of plain values."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from forecast import attention
from forecast.common.bounds import check_sizes
from forecast.common.errors import InputError
from forecast.common.settings import check_least, check_options
from forecast.model.decoder import Decoder, DecoderLayer
from forecast.model.distilling import Distilling
from forecast.model.encoder import Encoder, EncoderLayer
from forecast.model.informer import Informer
from forecast.model.linear_path import LinearPath, Sum, WeightedMean
from forecast.model.multi_head import MultiHeadAttention
from forecast.model.normalization import NoNormalization, WindowNormalization
from forecast.model.tokens import PatchTokens, StepTokens

MOST_DROPPED = 0.999
"""Elements are dropped to 1 in 65,536: nearly all of them would be all."""


@dataclass(frozen=True)
class Sizes:
    """What the data and the task settle: C_out, C_in - C_out, F, T and h."""

    num_targets: int
    num_past_covariates: int
    num_known: int
    context_length: int
    horizon: int


@dataclass(frozen=True)
class Mechanisms:
    """The attention of each place, as `name` and arguments."""

    encoder: Mapping[str, Any]
    decoder: Mapping[str, Any]
    cross: Mapping[str, Any]


def build(name: str, sizes: Sizes, mechanisms: Mechanisms, **options: Any) -> Informer:
    """Make the preset `name` from plain values, the same for training and for prediction.

    Raises
    ------
    InputError
        If the preset or an option does not exist, or a value is out of its range.
    """
    presets: dict[str, Callable[..., Informer]] = {"patch_informer": patch_informer, "informer": informer}
    if name not in presets:
        raise InputError(f"model {name!r} does not exist: choose one of {', '.join(presets)}")
    known = list(inspect.signature(presets[name]).parameters)[2:]
    if set(options) != set(known):
        wrong = ", ".join(sorted(set(options) ^ set(known)))
        raise InputError(f"model={name}: {wrong} missing or unknown: its options are {', '.join(known)}")
    check_options(presets[name], options, "model")
    for key, value in options.items():
        if isinstance(value, int) and not isinstance(value, bool) and key not in ("start_length", "dropout"):
            check_least(value, 1, f"model.{key}")
    try:
        check_sizes(options, "model")
    except ValueError as error:
        raise InputError(str(error)) from None
    if not 0 <= options["dropout"] <= MOST_DROPPED:
        raise InputError(f"model.dropout={options['dropout']}: must be at least 0 and at most {MOST_DROPPED}")
    return presets[name](sizes, mechanisms, **options)


def patch_informer(
    sizes: Sizes,
    mechanisms: Mechanisms,
    *,
    d_model: int,
    num_heads: int,
    head_dim: int | None,
    d_ff: int,
    encoder_layers: int,
    decoder_layers: int,
    dropout: float,
    patch_length: int,
    stride: int | None,
    channels: str,
    level: str,
    queries: str,
    linear_path: str | bool,
) -> Informer:
    """Return the model of patches, window normalisation, learned horizon queries and a linear path.

    `stride` is `patch_length` where it is None. `level`, whose mean is subtracted, is "last_patch" or "window".
    `queries` are "last_patch", learned ones that carry its token, or "learned", those alone. `linear_path` is
    "ridge", a sum with a path that starts in closed form, "zero", one that starts from nothing, "weighted", the
    weighted mean with a path in closed form, or False.
    """
    stride = patch_length if stride is None else stride
    if not 1 <= stride <= patch_length <= sizes.context_length:
        raise InputError(
            f"model.stride {stride}, model.patch_length {patch_length}, context_length {sizes.context_length}: "
            "1 <= stride <= patch_length <= context_length must hold"
        )
    if channels not in ("independent", "mixed"):
        raise InputError(f"model.channels {channels!r}: choose independent or mixed")
    if level not in ("last_patch", "window"):
        raise InputError(f"model.level {level!r}: choose last_patch or window")
    if queries not in ("last_patch", "learned"):
        raise InputError(f"model.queries {queries!r}: choose last_patch or learned")
    if patch_length == 1 and level == queries == "last_patch":
        raise InputError(
            "model.patch_length=1, model.level=last_patch, model.queries=last_patch: the last step less itself is "
            "nothing to carry: add model.level=window"
        )
    if linear_path not in ("ridge", "zero", "weighted", False):
        raise InputError(f"model.linear_path {linear_path!r}: choose weighted, ridge, zero or false")
    tokens = PatchTokens(
        **vars(sizes),
        d_model=d_model,
        dropout=dropout,
        patch_length=patch_length,
        stride=stride,
        channels=channels,
        queries=queries,
    )
    heads = partial(_heads, d_model=d_model, num_heads=num_heads, head_dim=head_dim)
    layer: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "norm_first": True}
    path = LinearPath(sizes.context_length, sizes.horizon) if linear_path else None
    weighted = linear_path == "weighted"
    if path is not None and not weighted:  # what it leaves is learnt from nothing: training starts at the path
        nn.init.zeros_(tokens.head.weight)
        nn.init.zeros_(tokens.head.bias)
    source, query = tokens.source_length, tokens.query_length
    return Informer(
        tokens=tokens,
        encoder=Encoder(
            [EncoderLayer(heads(mechanisms.encoder, source), **layer) for _ in range(encoder_layers)], [], d_model
        ),
        decoder=Decoder(
            [
                DecoderLayer(heads(mechanisms.decoder, query), heads(mechanisms.cross, source), **layer)
                for _ in range(decoder_layers)
            ],
            d_model,
        ),
        normalization=WindowNormalization(patch_length if level == "last_patch" else None),
        linear_path=path,
        combination=WeightedMean() if weighted else Sum(),
        num_targets=sizes.num_targets,
    )


def informer(
    sizes: Sizes,
    mechanisms: Mechanisms,
    *,
    d_model: int,
    num_heads: int,
    head_dim: int | None,
    d_ff: int,
    encoder_layers: int,
    decoder_layers: int,
    dropout: float,
    start_length: int,
    distil: bool,
) -> Informer:
    """Return the paper's model: a token a step, distilling, a start token, a causal decoder."""
    if not 0 <= start_length <= sizes.context_length:
        raise InputError(
            f"model.start_length {start_length} must be between 0 and context_length {sizes.context_length}"
        )
    tokens = StepTokens(**vars(sizes), d_model=d_model, dropout=dropout, start_length=start_length)
    heads = partial(_heads, d_model=d_model, num_heads=num_heads, head_dim=head_dim)
    layer: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "dropout": dropout, "norm_first": False}
    lengths = [tokens.source_length]
    for _ in range(encoder_layers - 1):
        lengths.append(Distilling.output_length(lengths[-1]) if distil else lengths[-1])
    return Informer(
        tokens=tokens,
        encoder=Encoder(
            [EncoderLayer(heads(mechanisms.encoder, length), **layer) for length in lengths],
            [Distilling(d_model) for _ in lengths[1:]] if distil else [],
            d_model,
        ),
        decoder=Decoder(
            [
                DecoderLayer(
                    heads(mechanisms.decoder, tokens.query_length, causal=True),
                    heads(mechanisms.cross, lengths[-1]),
                    **layer,
                )
                for _ in range(decoder_layers)
            ],
            d_model,
        ),
        normalization=NoNormalization(),
        linear_path=None,
        combination=Sum(),
        num_targets=sizes.num_targets,
    )


def _heads(
    mechanism: Mapping[str, Any],
    max_key_length: int,
    *,
    d_model: int,
    num_heads: int,
    head_dim: int | None,
    causal: bool = False,
) -> MultiHeadAttention:
    if head_dim is None and d_model % num_heads:
        raise InputError(f"model.d_model {d_model} is not divisible by model.num_heads {num_heads}: set model.head_dim")
    width = d_model // num_heads if head_dim is None else head_dim
    if "name" not in mechanism:
        raise InputError(f"attention.name is not given: choose one of {', '.join(attention.available())}")
    attention.check_arguments(mechanism)
    kernel = attention.build(
        **mechanism, num_heads=num_heads, head_dim=width, causal=causal, max_key_length=max_key_length
    )
    return MultiHeadAttention(d_model, num_heads, kernel, head_dim=width)
