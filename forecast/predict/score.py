"""A run scored on all its test windows, as it was trained and otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from forecast.common.progress import progress
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch
from forecast.evaluation.evaluate import evaluate
from forecast.model.informer import Informer
from forecast.predict.data import data_at, same_source
from forecast.predict.weights import attention_named, trained_attention, transplant
from forecast.runs.precision import exact_convolutions
from forecast.runs.run import Run


@dataclass(frozen=True)
class Scored:
    """One line of `transplant.json`.

    Attributes
    ----------
    attention
        The self-attention that the weights ran under, as `full` or `probsparse factor=9`.
    context_length
        The look-back, in steps.
    test
        `mse` and `mae` of the test part, on z-scores, over all its windows.
    windows
        How many those are.
    seconds_per_window
        Of the forecasts, in batches; NaN (null in the file) where there was one batch alone.
    trained
        Whether the run was trained so; the first line is that one.
    share
        The weight of the encoder-decoder in the forecast; None where it is not a weighted mean.
    """

    attention: str
    context_length: int
    test: dict[str, float]
    windows: int
    seconds_per_window: float
    trained: bool
    share: float | None


def score_all(
    run: Run, attention: Sequence[str], context_lengths: Sequence[int], *, file: Path | None = None, quiet: bool
) -> list[Scored]:
    """Score the run as it was trained, then under each attention and at each look-back, alone and together.

    `file` is the data file where the user names it.

    Raises
    ------
    InputError
        If the run, its data or one of the combinations cannot be used; that is seen before any is scored.
    """
    variants = [None, *(attention_named(word) for word in attention)]
    source = same_source(run, file)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    own = data_at(run, source, None, device)
    own_length = own.sizes["context_length"]
    lengths = [None, *(length for length in dict.fromkeys(context_lengths) if length != own_length)]
    data = {length: own if length is None else data_at(run, source, length, device) for length in lengths}
    models = {length: [(variant, transplant(run, variant, length)) for variant in variants] for length in lengths}
    own_label = trained_attention(run)
    exact_convolutions()
    scored = []
    with progress(len(lengths) * len(variants), quiet=quiet) as (say, advance):
        for length, networks in models.items():
            data[length].to(device)
            for variant, network in networks:
                label = own_label if variant is None else variant.label
                say(f"{label}: {data[length].sizes['context_length']:,}")
                trained = variant is None and length is None
                scored.append(_score(network.to(device), data[length], label, trained=trained))
                network.cpu()
                advance(1)
            data[length].to(torch.device("cpu"))  # a GPU has room for one table at a time, and for one network
    return scored


def _score(network: Informer, data: ForecastData, attention: str, *, trained: bool) -> Scored:
    def forecaster(batch: Batch) -> Tensor:
        forecast: Tensor = network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
        return forecast

    windows = data.parts["test"]
    scored = evaluate(forecaster, windows, data.evaluation_batch_size)
    return Scored(
        attention=attention,
        context_length=windows.context_length,
        test=scored.sums.scaled(),
        windows=len(windows),
        seconds_per_window=1 / scored.windows_per_s,
        trained=trained,
        share=network.share,
    )
