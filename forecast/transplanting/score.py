"""A run scored on all its test windows, as it was trained and otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from forecast.benchmarking.progress import progress
from forecast.data.datamodule import ForecastData
from forecast.data.windows import Batch
from forecast.evaluate import evaluate
from forecast.model.informer import Informer
from forecast.run import Run
from forecast.transplanting.data import data_at, same_source
from forecast.transplanting.weights import attention_named, trained_attention, transplant


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


def score_all(run: Run, attention: Sequence[str], context_lengths: Sequence[int], *, quiet: bool) -> list[Scored]:
    """Score the run as it was trained, then under each attention and at each look-back, alone and together.

    Raises
    ------
    InputError
        If the run, its data or one of the combinations cannot be used; that is seen before any is scored.
    """
    variants = [None, *(attention_named(word) for word in attention)]
    own_label = trained_attention(run)
    source = same_source(run)
    own = data_at(run, source, None)
    own_length = own.sizes.context_length
    lengths = [None, *(length for length in dict.fromkeys(context_lengths) if length != own_length)]
    data = {length: own if length is None else data_at(run, source, length) for length in lengths}
    models = [(variant, length, transplant(run, variant, length)) for length, variant in product(lengths, variants)]
    scored = []
    with progress(len(models), quiet=quiet) as (say, advance):
        for variant, length, network in models:
            label = own_label if variant is None else variant.label
            say(f"{label}: {data[length].sizes.context_length:,}")
            scored.append(_score(network, data[length], label, trained=variant is None and length is None))
            advance(1)
    return scored


def _score(network: Informer, data: ForecastData, attention: str, *, trained: bool) -> Scored:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device)
    data.to(device)

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
