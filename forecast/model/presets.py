"""The two models, `patch_informer` and `informer`, each a function of its options."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from forecast import attention
from forecast.attention._multi_head import MultiHeadAttention
from forecast.common.bounds import check_sizes
from forecast.common.errors import InputError
from forecast.common.settings import option, read_options, settings
from forecast.model.decoder import Decoder, DecoderLayer
from forecast.model.encoder import Distilling, Encoder, EncoderLayer
from forecast.model.informer import Informer, Response
from forecast.model.linear_path import LinearPath, Sum, WeightedMean
from forecast.model.normalization import NoNormalization, WindowNormalization
from forecast.model.tokens import PatchTokens, Sizes, StaticEmbedding, StepTokens

__all__ = ["Mechanisms", "Sizes", "build"]

MOST_DROPPED = 0.999
"""Largest dropout probability: dropout is exact to 1 in 65,536, so a value close to 1 would be rounded to 1."""


@dataclass(frozen=True)
class Mechanisms:
    """The attention of encoder, decoder and cross-attention: `name` and arguments of each."""

    encoder: Mapping[str, Any]
    decoder: Mapping[str, Any]
    cross: Mapping[str, Any]


@settings
class Options:
    """Options of both models."""

    d_model: int = option("Width of a token.", least=1)
    num_heads: int = option("Heads of each attention.", least=1)
    head_dim: int | None = option("Width of a head; null: d_model / num_heads.", least=1)
    d_ff: int = option("Width of the feed-forward layers.", least=1)
    encoder_layers: int = option("Layers of the encoder.", least=1)
    decoder_layers: int = option("Layers of the decoder.", least=1)
    dropout: float = option("Share of activations that training sets to zero.", least=0, most=MOST_DROPPED)


PATCH = 24
"""Steps of a patch of `patch_informer` that no one chose; a training chooses them for its table."""


@settings
class PatchInformerOptions(Options):
    """Options of `patch_informer`."""

    patch_length: int | None = option("Steps in a token; null: follows from the table.", unit="steps", least=1)
    stride: int | None = option("Steps between tokens; null: patch_length.", unit="steps", least=1)
    level: str = option(
        "Reference level of a window: mean of its last patch (last_patch) or of all steps (window).",
        choices=("last_patch", "window"),
    )
    queries: str = option(
        "Queries of the decoder: learned, or learned plus the last patch (last_patch).",
        choices=("last_patch", "learned"),
    )
    channels: str = option(
        "One sequence for each target (independent), or one of all channels (mixed).", choices=("independent", "mixed")
    )
    patch_values: str = option(
        "Values of a patch: as they are (plain), or compressed by asinh with gaps marked (robust).",
        choices=("plain", "robust"),
        default="plain",
    )
    linear_path: str | bool = option(
        "Mixture with a linear path: weighted (mean), ridge or zero (sum, by start), false (no path).",
        choices=("weighted", "ridge", "zero", "false"),
        checked=False,
    )
    path_weights: str = option(
        "Maps of the linear path: shared by all series, or one for each (series).", choices=("shared", "series")
    )
    response_width: int = option(
        "Width of a network that explains targets by the known inputs of their step; 0: none.", least=0
    )


@settings
class InformerOptions(Options):
    """Options of `informer`."""

    start_length: int = option("Last steps of the look-back that the decoder reads.", unit="steps")
    distil: bool = option("Halve the length after each encoder layer but the last.")


OPTIONS: dict[str, type[PatchInformerOptions | InformerOptions]] = {
    "patch_informer": PatchInformerOptions,
    "informer": InformerOptions,
}


def build(name: str, sizes: Sizes, mechanisms: Mechanisms, **options: Any) -> Informer:
    """Build the model `name` from plain values; raise InputError if an option is unknown, missing or out of range."""
    if name not in OPTIONS:
        raise InputError(f"model {name!r} does not exist: choose one of {', '.join(OPTIONS)}")
    values = read_options(OPTIONS[name], options, "model")
    try:
        check_sizes(values, "model")
    except ValueError as error:
        raise InputError(str(error)) from None
    chosen = OPTIONS[name](**values)
    if isinstance(chosen, PatchInformerOptions):
        return patch_informer(sizes, mechanisms, chosen)
    return informer(sizes, mechanisms, chosen)


def patch_informer(sizes: Sizes, mechanisms: Mechanisms, options: PatchInformerOptions) -> Informer:
    """Build the model of patches, window normalization, learned queries for the horizon and a linear path."""
    patch_length = min(PATCH, sizes.context_length) if options.patch_length is None else options.patch_length
    stride = patch_length if options.stride is None else options.stride
    _check_patches(sizes, options, patch_length, stride)
    tokens = PatchTokens(
        sizes,
        d_model=options.d_model,
        dropout=options.dropout,
        patch_length=patch_length,
        stride=stride,
        channels=options.channels,
        queries=options.queries,
        robust=options.patch_values == "robust",
    )
    path = None
    if options.linear_path:
        weighted = options.linear_path == "weighted"
        quantiles = len(sizes.quantiles) if weighted else 0  # a sum takes the spread from the encoder-decoder alone
        lengths_and_series = (sizes.context_length, sizes.horizon, sizes.num_targets)
        path = LinearPath(*lengths_and_series, sizes.layout, quantiles, per_series=options.path_weights == "series")
    weighted = options.linear_path == "weighted"
    if path is not None and not weighted:  # training starts at the forecast of the linear path
        nn.init.zeros_(tokens.head.weight)
        nn.init.zeros_(tokens.head.bias)
    response = None
    if options.response_width and sizes.num_known:
        response = Response(sizes.layout, sizes.num_targets, options.response_width)
    lengths = [tokens.source_length] * options.encoder_layers
    encoder, decoder = _layers(options, mechanisms, lengths, tokens.query_length, norm_first=True)
    return Informer(
        tokens=tokens,
        encoder=encoder,
        decoder=decoder,
        normalization=WindowNormalization(patch_length if options.level == "last_patch" else None),
        linear_path=path,
        combination=WeightedMean() if weighted else Sum(),
        num_targets=sizes.num_targets,
        quantiles=sizes.quantiles,
        response=response,
        static=_static(sizes, options.d_model),
    )


def informer(sizes: Sizes, mechanisms: Mechanisms, options: InformerOptions) -> Informer:
    """Build the model of the paper: one token per step, distilling, a start token and a causal decoder."""
    start, distil = options.start_length, options.distil
    if sizes.num_static:
        raise InputError(
            "data.static_covariates: in model=informer a token holds all columns, so a static value is a constant: "
            "use model=patch_informer"
        )
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
        quantiles=sizes.quantiles,
        static=_static(sizes, options.d_model),
    )


def _static(sizes: Sizes, d_model: int) -> StaticEmbedding | None:
    """Build the embedding of static inputs, after all layers, whose first weights do not depend on it."""
    return StaticEmbedding(sizes.static_layout, d_model) if sizes.static_layout.width else None


def _check_patches(sizes: Sizes, options: PatchInformerOptions, patch_length: int, stride: int) -> None:
    if not 1 <= stride <= patch_length <= sizes.context_length:
        raise InputError(
            f"model.stride {stride}, model.patch_length {patch_length}, context_length {sizes.context_length}: "
            "1 <= stride <= patch_length <= context_length must hold"
        )
    if patch_length == 1 and options.level == options.queries == "last_patch":
        raise InputError(
            "model.patch_length=1, model.level=last_patch, model.queries=last_patch: the last patch less its level is "
            "always 0: add model.level=window"
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
    """Build the encoder, whose layers have inputs of these `lengths`, and the decoder."""
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
            heads(mechanisms.decoder, query_length, causal=causal),
            heads(mechanisms.cross, lengths[-1], cross=True),
            **layer,
        )
        for _ in range(options.decoder_layers)
    ]
    return encoder, Decoder(decoder_layers, d_model)


def _heads(
    options: Options, mechanism: Mapping[str, Any], max_key_length: int, causal: bool = False, cross: bool = False
) -> MultiHeadAttention:
    d_model, num_heads = options.d_model, options.num_heads
    if options.head_dim is None and d_model % num_heads:
        raise InputError(f"model.d_model {d_model} is not divisible by model.num_heads {num_heads}: set model.head_dim")
    width = d_model // num_heads if options.head_dim is None else options.head_dim
    if "name" not in mechanism:
        raise InputError(f"attention.name is missing: choose one of {', '.join(attention.available())}")
    attention.check_arguments(mechanism)
    kernel = attention.build(
        **mechanism, num_heads=num_heads, head_dim=width, causal=causal, max_key_length=max_key_length
    )
    if cross and not kernel.cross:
        raise InputError(
            f"attention={kernel.name} cannot attend from the decoder to the encoder, whose length is another: "
            "set attention@cross_attention=full"
        )
    return MultiHeadAttention(d_model, num_heads, kernel, head_dim=width)
