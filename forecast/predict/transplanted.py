"""The weights of a run under other mechanisms or look-backs, and their scores."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from forecast.attention._parsing import Variant, label_of, parse
from forecast.common.errors import InputError, NotFiniteError
from forecast.common.files import read_json, sha256
from forecast.common.progress import progress
from forecast.common.tables import Table
from forecast.common.text import duration
from forecast.data.datamodule import ForecastData
from forecast.data.settings import SYNTHETIC, DataSettings
from forecast.data.sources import Source, described_data, load_source
from forecast.data.storage import Placing
from forecast.data.windows import Batch
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.mixing import percent
from forecast.model.informer import Informer
from forecast.runs.resume import read_config
from forecast.runs.run import DAMAGE, RESULT, Architecture, Run
from forecast.runs.settings import Settings, exact_convolutions

OPTION = "--attention"


def attention_named(word: str) -> Variant:
    """Return the mechanism that a word such as `full` or `probsparse:factor=9` names."""
    return parse(word, OPTION)


def trained_attention(run: Run) -> str:
    """Return the self-attention of a run's training as text, with the decoder's if that differs."""
    mechanisms = Architecture.from_dict(run.manifest()["architecture"]).mechanisms
    encoder, decoder = (_label(each) for each in (mechanisms.encoder, mechanisms.decoder))
    return encoder if encoder == decoder else f"{encoder} (decoder {decoder})"


def _label(mechanism: Mapping[str, Any]) -> str:
    return label_of(str(mechanism["name"]), {key: value for key, value in mechanism.items() if key != "name"})


def changed(architecture: Architecture, attention: Variant | None, context_length: int | None) -> Architecture:
    """Return the architecture with another self-attention, in encoder and decoder, or another look-back.

    None keeps the trained one; cross-attention never changes.
    """
    mechanisms, sizes = architecture.mechanisms, architecture.sizes
    if attention is not None:
        own = {"name": attention.name, **attention.arguments}
        mechanisms = replace(mechanisms, encoder=own, decoder=own)
    if context_length is not None:
        sizes = replace(sizes, context_length=context_length)
    return replace(architecture, mechanisms=mechanisms, sizes=sizes)


def transplant(run: Run, attention: Variant | None = None, context_length: int | None = None) -> Informer:
    """Return the run's weights in a model of another attention or look-back, on the CPU, in evaluation mode."""
    trained = run.load_model()
    own = Architecture.from_dict(run.manifest()["architecture"])
    network = changed(own, attention, context_length).build()
    weights = trained.state_dict()
    _check(weights, network.state_dict(), trained_attention(run), "" if attention is None else attention.label)
    network.load_state_dict(weights)
    return network.eval()


def _check(weights: dict[str, Tensor], wanted: dict[str, Tensor], trained: str, attention: str) -> None:
    """Refuse a model whose weights differ from the run's in name or shape."""
    for name in sorted(wanted.keys() - weights.keys()):
        raise InputError(
            f"{OPTION} {attention}: has weights of its own ({name}), which this run, trained with {trained}, has "
            "not learned: choose a mechanism without any, or train with this one"
        )
    for name in sorted(weights.keys() - wanted.keys()):
        raise InputError(
            f"{OPTION} {attention}: has no place for {name}, which this run has learned with {trained}: its weights "
            "go with no other mechanism"
        )
    for name, tensor in wanted.items():
        if tensor.shape != weights[name].shape:
            raise InputError(
                f"{name} is {tuple(weights[name].shape)} in this run and would have to be {tuple(tensor.shape)}: "
                f"{_cure(name)}"
            )


def _cure(name: str) -> str:
    if name.startswith("linear_path."):
        return (
            "the linear path has a weight for each step of the look-back of training: only a run with "
            "model.linear_path=false takes another look-back"
        )
    return "these weights belong to the look-back and the arguments of training: keep both"


def same_source(run: Run, file: Path | None = None) -> Source:
    """Return the series of the run: from the user's `file`, the run's file, or the simulation.

    Nothing is downloaded, and no file elsewhere is read that only the run folder names.
    """
    config, facts = read_config(run.path)["data"], _facts(run)
    settings = DataSettings.parse(config)
    if settings.source == SYNTHETIC:
        if file is not None:
            raise InputError(f"--data {file}: {run.path} was trained on a simulation: leave it out")
        return load_source(settings)

    def command(name: str) -> str:
        return f"python -m forecast.predict.transplant --run {shlex.quote(str(run.path))} --data {shlex.quote(name)} …"

    path = file
    if path is None:
        path = Path(str(facts["path"]))
        described_data({**config, "path": str(path)}, run.path, command)
    if not path.is_file():
        raise InputError(f"{path}: the file that {run.path} was trained on is not there: put it back, or give --data")
    if sha256(path) != facts["sha256"]:
        raise InputError(f"{path}: not the file that {run.path} was trained on (its sha256 differs): put it back")
    return load_source(replace(settings, path=str(path), sha256=None))


def data_at(run: Run, source: Source, context_length: int | None, device: torch.device) -> ForecastData:
    """Return the windows of the run's series, with its split and scaling, at a look-back; None: the run's own.

    They are for `device`, but not there yet.
    """
    settings, trained = Settings.parse(read_config(run.path)), run.manifest()
    data = ForecastData(
        source,
        settings.data.split,
        context_length=settings.context_length if context_length is None else context_length,
        horizon=settings.horizon,
        batch_size=settings.training.batch_size,
        evaluation_batch_size=settings.training.evaluation_batch_size,
        seed=settings.seed,
        placing=Placing(device=device, folder=run.path),
    )
    made = json.loads(json.dumps(data.manifest()))
    if any(value != trained.get(key) for key, value in made.items()):
        raise InputError(f"{run.path}: its data are not those that it was trained on: train it again")
    return data


def _facts(run: Run) -> Mapping[str, Any]:
    try:
        facts = read_json(run.path / RESULT)["data"]
    except DAMAGE:
        facts = None
    if not isinstance(facts, Mapping) or not {"path", "sha256"} <= set(facts):
        raise InputError(f"{run.path / RESULT}: does not name the data: the run folder is damaged")
    return facts


@dataclass(frozen=True)
class Scored:
    """One line of `transplant.json`: the test scores under an attention, as `full` or `probsparse factor=9`.

    `test` holds `mse` and `mae` of the test part, on z-scores, over all its windows. `seconds_per_window` is measured
    on batches; NaN (null in the file) for a single batch. `trained` marks the trained combination, which is first.
    `share` is the weight of the encoder-decoder in the forecast; None where it is not a weighted mean.
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
    """Score the run as trained, then under each attention and at each look-back, alone and together.

    `file` is the user's data file.
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
    test = scored.sums.scaled()
    if not all(map(math.isfinite, test.values())):
        raise NotFiniteError(
            f"the scores under {attention} are not finite: the weights of the run are damaged, or too large for it"
        )
    return Scored(
        attention=attention,
        context_length=windows.context_length,
        test=test,
        windows=len(windows),
        seconds_per_window=1 / scored.windows_per_s,
        trained=trained,
        share=network.share,
    )


HEADINGS = ("attention", "look-back", "test windows", "MSE", "MAE", "MSE against trained", "a window")


def table_of(run: Run, scored: Sequence[Scored]) -> Table:
    """Return the table, the run as it was trained first."""
    notes = (
        "MSE, MAE: on z-scores, of all test windows; a window: of a batch of forecasts, measured in this process; no "
        "weight was trained anew",
        *_share_notes(scored[0].share),
    )
    return Table(
        f"{run.path}: its weights, transplanted", HEADINGS, [_cells(each, scored[0]) for each in scored], notes
    )


def _share_notes(share: float | None) -> tuple[str, ...]:
    if share is None:
        return ()
    if share == 0:
        return ("validation gave the encoder-decoder no weight in this run: no attention has a part in its forecast",)
    return (
        f"the encoder-decoder is {percent(share)} of the forecast, the rest the linear path's, which has no attention",
    )


def _cells(scored: Scored, trained: Scored) -> list[str]:
    mse = scored.test["mse"]
    seconds = None if math.isnan(scored.seconds_per_window) else scored.seconds_per_window
    return [
        f"{scored.attention} (trained)" if scored.trained else scored.attention,
        f"{scored.context_length:,}",
        f"{scored.windows:,}",
        f"{mse:.4f}",
        f"{scored.test['mae']:.4f}",
        f"{mse / trained.test['mse'] - 1:+.1%}",
        duration(seconds),
    ]
