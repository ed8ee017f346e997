"""Transplant the weights of a run to other attention or look-backs, and score them."""

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
from forecast.data.settings import FILE, DataSettings
from forecast.data.sources import Source, described_data, load_source
from forecast.data.storage import Placing
from forecast.data.windows import Batch
from forecast.evaluation.evaluate import evaluate
from forecast.evaluation.mixing import percent
from forecast.evaluation.scoring import scaled_limits
from forecast.model.informer import Informer
from forecast.runs.resume import read_config
from forecast.runs.run import DAMAGE, RESULT, Architecture, Run
from forecast.runs.settings import Settings, exact_convolutions

OPTION = "--attention"


def attention_named(word: str) -> Variant:
    """Parse a mechanism such as `full` or `probsparse:factor=9`."""
    return parse(word, OPTION)


def trained_attention(run: Run) -> str:
    """Return the label of a run's self-attention, with that of the decoder if it differs."""
    mechanisms = Architecture.from_dict(run.manifest()["architecture"]).mechanisms
    encoder, decoder = _label(mechanisms.encoder), _label(mechanisms.decoder)
    return encoder if encoder == decoder else f"{encoder} (decoder {decoder})"


def _label(mechanism: Mapping[str, Any]) -> str:
    return label_of(str(mechanism["name"]), {key: value for key, value in mechanism.items() if key != "name"})


def changed(architecture: Architecture, attention: Variant | None, context_length: int | None) -> Architecture:
    """Return the architecture with another self-attention in encoder and decoder, or another look-back.

    None keeps that of training. Cross-attention does not change.
    """
    mechanisms, sizes = architecture.mechanisms, architecture.sizes
    if attention is not None:
        mechanism = {"name": attention.name, **attention.arguments}
        mechanisms = replace(mechanisms, encoder=mechanism, decoder=mechanism)
    if context_length is not None:
        sizes = sizes.with_look_back(context_length)
    return replace(architecture, mechanisms=mechanisms, sizes=sizes)


def transplant(run: Run, attention: Variant | None = None, context_length: int | None = None) -> Informer:
    """Return a model with the run's weights and another attention or look-back, on the CPU, in evaluation mode."""
    trained = run.load_model()
    architecture = Architecture.from_dict(run.manifest()["architecture"])
    network = changed(architecture, attention, context_length).build()
    weights = trained.state_dict()
    _check(weights, network.state_dict(), trained_attention(run), "" if attention is None else attention.label)
    network.load_state_dict(weights)
    return network.eval()


def _check(weights: dict[str, Tensor], expected: dict[str, Tensor], trained: str, attention: str) -> None:
    """Raise InputError if names or shapes of the run's weights differ from those of the new model."""
    for name in sorted(expected.keys() - weights.keys()):
        raise InputError(
            f"{OPTION} {attention}: has a weight ({name}) that this run, trained with {trained}, does not have: choose "
            "a mechanism without weights, or train with this one"
        )
    for name in sorted(weights.keys() - expected.keys()):
        raise InputError(
            f"{OPTION} {attention}: does not have {name}, a weight of this run, trained with {trained}: its weights "
            "fit no other mechanism"
        )
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise InputError(
                f"{name} has shape {tuple(weights[name].shape)} in this run, not {tuple(tensor.shape)}: {_cure(name)}"
            )


def _cure(name: str) -> str:
    if name.startswith("linear_path."):
        return (
            "the linear path has one weight per step of the look-back: only a run with model.linear_path=false accepts "
            "another look-back"
        )
    return "this weight depends on the look-back and the arguments of the mechanism: keep both"


def same_source(run: Run, file: Path | None = None) -> Source:
    """Load the series of the run from the user's `file`, the file of the run, or the simulation.

    Nothing is downloaded. A file that only the run folder names is read in data folders only.
    """
    config, facts = read_config(run.path)["data"], _facts(run)
    settings = DataSettings.parse(config)
    if settings.source != FILE:
        if file is not None:
            raise InputError(f"--data {file}: {run.path} was trained on a simulation: leave out --data")
        return load_source(settings)

    def command(name: str) -> str:
        return f"python -m forecast.predict.transplant --run {shlex.quote(str(run.path))} --data {shlex.quote(name)} …"

    path = file
    if path is None:
        path = Path(str(facts["path"]))
        described_data({**config, "path": str(path)}, run.path, command)
    if not path.is_file():
        raise InputError(f"{path}: the data file of {run.path} does not exist: put it back, or give --data")
    if sha256(path) != facts["sha256"]:
        raise InputError(f"{path}: not the data file of {run.path} (its sha256 differs): put the original back")
    return load_source(replace(settings, path=str(path), sha256=None))


def data_at(run: Run, source: Source, context_length: int | None, device: torch.device) -> ForecastData:
    """Return the windows of the run's series with its split and scaling, on the CPU.

    `context_length` None is the look-back of the run. `device` is where the windows will be moved to.
    """
    settings, trained = Settings.parse(read_config(run.path)), run.manifest()
    look_back, horizon = settings.lengths
    data = ForecastData(
        source,
        settings.data.split,
        context_length=look_back if context_length is None else context_length,
        horizon=horizon,
        batch_size=settings.training.batch_size,
        evaluation_batch_size=settings.training.evaluation_batch_size,
        seed=settings.seed,
        placing=Placing(device=device, folder=run.path),
    )
    manifest = json.loads(json.dumps(data.contract().to_dict()))
    here, there = ((facts["data"].get("holidays") or {}).get("library") for facts in (manifest, trained))
    if here != there:
        raise InputError(
            f"{run.path}: was trained with version {there} of the package holidays, here is {here}: install that "
            "version, or train it again"
        )
    if any(value != trained.get(key) for key, value in manifest.items()):
        raise InputError(f"{run.path}: the data differ from those of training: train it again")
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
    """Row of `transplant.json`: the test scores with one attention, such as `full` or `probsparse factor=9`.

    `test` has `mse` and `mae` on z-scores over all test windows. `seconds_per_window` is measured on batches; NaN (null
    in the file) if there is only one. `trained` marks the combination of training, which is first. `share` is the
    mixing weight of the encoder-decoder; None if the forecast is not a weighted mean.
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
    """Score the run as trained, then with each combination of attention and look-back; `file` is the data file."""
    variants = [None, *(attention_named(word) for word in attention)]
    source = same_source(run, file)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained_data = data_at(run, source, None, device)
    trained_length = trained_data.sizes["context_length"]
    lengths = [None, *(length for length in dict.fromkeys(context_lengths) if length != trained_length)]
    data = {length: trained_data if length is None else data_at(run, source, length, device) for length in lengths}
    models = {length: [(variant, transplant(run, variant, length)) for variant in variants] for length in lengths}
    trained_label = trained_attention(run)
    exact_convolutions()
    scored = []
    with progress(len(lengths) * len(variants), quiet=quiet) as (say, advance):
        for length, networks in models.items():
            data[length].to(device)
            for variant, network in networks:
                label = trained_label if variant is None else variant.label
                say(f"{label}: {data[length].sizes['context_length']:,}")
                trained = variant is None and length is None
                scored.append(_score(network.to(device), data[length], label, trained=trained))
                network.cpu()
                advance(1)
            data[length].to(torch.device("cpu"))  # keep one table and one network on the GPU at a time
    return scored


def _score(network: Informer, data: ForecastData, attention: str, *, trained: bool) -> Scored:
    def forecaster(batch: Batch) -> Tensor:
        forecast: Tensor = network(batch.past, batch.past_known, batch.future_known, batch.past_observed)
        return forecast

    windows = data.parts["test"]
    scored = evaluate(forecaster, windows, data.evaluation_batch_size, limits=scaled_limits(data))
    test = scored.sums.scaled()
    if not all(map(math.isfinite, test.values())):
        raise NotFiniteError(
            f"the scores with {attention} are not finite: the weights of the run are damaged, or too large"
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


HEADINGS = ("attention", "look-back", "windows", "MSE", "MAE", "MSE vs trained", "per window")


def table_of(run: Run, scored: Sequence[Scored], split: str = "test") -> Table:
    """Return the table of scores on the windows of a split, the run as trained first."""
    notes = (
        f"MSE, MAE: on z-scores, over all {split} windows; per window: time in a batch, measured in "
        "this process; no weight was retrained",
        *_share_notes(scored[0].share),
    )
    return Table(f"{run.path}: transplanted weights", HEADINGS, [_cells(row, scored[0]) for row in scored], notes)


def _share_notes(share: float | None) -> tuple[str, ...]:
    if share is None:
        return ()
    if share == 0:
        return ("the mixing weight of the encoder-decoder is 0 in this run: attention does not affect the forecast",)
    return (f"the encoder-decoder is {percent(share)} of the forecast; the rest is the linear path, without attention",)


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
