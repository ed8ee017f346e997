"""The two ways in which the parts are put together, each a function of its options."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from torch import nn

from forecast import attention
from forecast.common.bounds import check_sizes
from forecast.common.errors import InputError
from forecast.common.settings import check_least, check_options
from forecast.model.decoder import Decoder, DecoderLayer
from forecast.model.encoder import Distilling, Encoder, EncoderLayer
from forecast.model.informer import Informer
from forecast.model.linear_path import LinearPath, Sum, WeightedMean
from forecast.model.multi_head import MultiHeadAttention
from forecast.model.normalization import NoNormalization, WindowNormalization
from forecast.model.tokens import PatchTokens, Sizes, StepTokens

__all__ = ["Mechanisms", "Sizes", "build"]

MOST_DROPPED = 0.999
"""Elements are dropped to 1 in 65,536: nearly all of them would be all."""


@dataclass(frozen=True)
class Mechanisms:
    """The attention of each place, as `name` and arguments."""

    encoder: Mapping[str, Any]
    decoder: Mapping[str, Any]
    cross: Mapping[str, Any]


@dataclass(frozen=True)
class Options:
    """What both presets ask for."""

    d_model: int
    num_heads: int
    head_dim: int | None
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    dropout: float


@dataclass(frozen=True)
class PatchInformerOptions(Options):
    """Options of `patch_informer`.

    `stride` is `patch_length` where it is None. `level` is "last_patch" or "window", whose mean a window is counted
    from; `queries` "last_patch", learned ones that carry its token, or "learned", those alone. `linear_path` is
    "ridge", a sum with a path that starts in closed form, "zero", one that starts from nothing, "weighted", the
    weighted mean with a path in closed form, or False.
    """

    patch_length: int
    stride: int | None
    channels: str
    level: str
    queries: str
    linear_path: str | bool


@dataclass(frozen=True)
class InformerOptions(Options):
    """Options of `informer`."""

    start_length: int
    distil: bool


OPTIONS: dict[str, type[PatchInformerOptions | InformerOptions]] = {
    "patch_informer": PatchInformerOptions,
    "informer": InformerOptions,
}

CHOICES = {
    "channels": ("independent", "mixed"),
    "level": ("last_patch", "window"),
    "queries": ("last_patch", "learned"),
}


def build(name: str, sizes: Sizes, mechanisms: Mechanisms, **options: Any) -> Informer:
    """Make the preset `name` from plain values, the same for training and for prediction."""
    if name not in OPTIONS:
        raise InputError(f"model {name!r} does not exist: choose one of {', '.join(OPTIONS)}")
    known = [field.name for field in fields(OPTIONS[name])]
    if set(options) != set(known):
        wrong = ", ".join(sorted(set(options) ^ set(known)))
        raise InputError(f"model={name}: {wrong} missing or unknown: its options are {', '.join(known)}")
    check_options(OPTIONS[name], options, "model")
    for key, value in options.items():
        if isinstance(value, int) and not isinstance(value, bool) and key not in ("start_length", "dropout"):
            check_least(value, 1, f"model.{key}")
    try:
        check_sizes(options, "model")
    except ValueError as error:
        raise InputError(str(error)) from None
    if not 0 <= options["dropout"] <= MOST_DROPPED:
        raise InputError(f"model.dropout={options['dropout']}: must be at least 0 and at most {MOST_DROPPED}")
    chosen = OPTIONS[name](**options)
    if isinstance(chosen, PatchInformerOptions):
        return patch_informer(sizes, mechanisms, chosen)
    return informer(sizes, mechanisms, chosen)


def patch_informer(sizes: Sizes, mechanisms: Mechanisms, options: PatchInformerOptions) -> Informer:
    """Return the model of patches, window normalisation, learned horizon queries and a linear path."""
    stride = options.patch_length if options.stride is None else options.stride
    _check_patches(sizes, options, stride)
    tokens = PatchTokens(
        sizes,
        d_model=options.d_model,
        dropout=options.dropout,
        patch_length=options.patch_length,
        stride=stride,
        channels=options.channels,
        queries=options.queries,
    )
    path = LinearPath(sizes.context_length, sizes.horizon) if options.linear_path else None
    weighted = options.linear_path == "weighted"
    if path is not None and not weighted:  # what it leaves is learnt from nothing: training starts at the path
        nn.init.zeros_(tokens.head.weight)
        nn.init.zeros_(tokens.head.bias)
    lengths = [tokens.source_length] * options.encoder_layers
    encoder, decoder = _layers(options, mechanisms, lengths, tokens.query_length, norm_first=True)
    return Informer(
        tokens=tokens,
        encoder=encoder,
        decoder=decoder,
        normalization=WindowNormalization(options.patch_length if options.level == "last_patch" else None),
        linear_path=path,
        combination=WeightedMean() if weighted else Sum(),
        num_targets=sizes.num_targets,
    )


def informer(sizes: Sizes, mechanisms: Mechanisms, options: InformerOptions) -> Informer:
    """Return the paper's model: a token a step, distilling, a start token, a causal decoder."""
    start, distil = options.start_length, options.distil
    if not 0 <= start <= sizes.context_length:
        raise InputError(f"model.start_length {start} must be between 0 and context_length {sizes.context_length}")
    tokens = StepTokens(sizes, d_model=options.d_model, dropout=options.dropout, start_length=start)
    lengths = [tokens.source_length]
    for _ in range(options.encoder_layers - 1):
        lengths.append(Distilling.output_length(lengths[-1]) if distil else lengths[-1])
    encoder, decoder = _layers(
        options, mechanisms, lengths, tokens.query_length, norm_first=False, causal=True, distil=distil
    )
    return Informer(
        tokens=tokens,
        encoder=encoder,
        decoder=decoder,
        normalization=NoNormalization(),
        linear_path=None,
        combination=Sum(),
        num_targets=sizes.num_targets,
    )


def _check_patches(sizes: Sizes, options: PatchInformerOptions, stride: int) -> None:
    patch_length = options.patch_length
    if not 1 <= stride <= patch_length <= sizes.context_length:
        raise InputError(
            f"model.stride {stride}, model.patch_length {patch_length}, context_length {sizes.context_length}: "
            "1 <= stride <= patch_length <= context_length must hold"
        )
    for key, choices in CHOICES.items():
        if (value := getattr(options, key)) not in choices:
            raise InputError(f"model.{key} {value!r}: choose {' or '.join(choices)}")
    if patch_length == 1 and options.level == options.queries == "last_patch":
        raise InputError(
            "model.patch_length=1, model.level=last_patch, model.queries=last_patch: the last step less itself is "
            "nothing to carry: add model.level=window"
        )
    if options.linear_path not in ("ridge", "zero", "weighted", False):
        raise InputError(f"model.linear_path {options.linear_path!r}: choose weighted, ridge, zero or false")


def _layers(
    options: Options,
    mechanisms: Mechanisms,
    lengths: list[int],
    query_length: int,
    *,
    norm_first: bool,
    causal: bool = False,
    distil: bool = False,
) -> tuple[Encoder, Decoder]:
    """Return the encoder, whose layers take tokens of these `lengths`, and the decoder."""
    heads, d_model = partial(_heads, options), options.d_model
    layer: dict[str, Any] = {"d_model": d_model, "d_ff": options.d_ff, "dropout": options.dropout}
    layer["norm_first"] = norm_first
    encoder = Encoder(
        [EncoderLayer(heads(mechanisms.encoder, length), **layer) for length in lengths],
        [Distilling(d_model) for _ in lengths[1:]] if distil else [],
        d_model,
    )
    decoder_layers = [
        DecoderLayer(
            heads(mechanisms.decoder, query_length, causal=causal), heads(mechanisms.cross, lengths[-1]), **layer
        )
        for _ in range(options.decoder_layers)
    ]
    return encoder, Decoder(decoder_layers, d_model)


def _heads(
    options: Options, mechanism: Mapping[str, Any], max_key_length: int, causal: bool = False
) -> MultiHeadAttention:
    d_model, num_heads = options.d_model, options.num_heads
    if options.head_dim is None and d_model % num_heads:
        raise InputError(f"model.d_model {d_model} is not divisible by model.num_heads {num_heads}: set model.head_dim")
    width = d_model // num_heads if options.head_dim is None else options.head_dim
    if "name" not in mechanism:
        raise InputError(f"attention.name is not given: choose one of {', '.join(attention.available())}")
    attention.check_arguments(mechanism)
    kernel = attention.build(
        **mechanism, num_heads=num_heads, head_dim=width, causal=causal, max_key_length=max_key_length
    )
    return MultiHeadAttention(d_model, num_heads, kernel, head_dim=width)
