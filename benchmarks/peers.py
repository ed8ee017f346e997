"""Compare our Informer with the Informer of `transformers`: `python -m benchmarks.peers`."""

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.models import BEFORE, NUM_KNOWN, SEED, Drawn, Preset, Task, build_ours, our_peer, parse_preset
from benchmarks.whole_models import add_task_options, call
from forecast.attention._parsing import configured, parse
from forecast.benchmark.machine import choose_device, facts_of
from forecast.benchmark.measure import WARM_UP
from forecast.benchmark.options import add_run_options, open_folder
from forecast.benchmark.report import CASES, heading_of, print_report, write_record, write_unfinished
from forecast.common.cli import positive, ran_out_of_memory
from forecast.common.errors import InputError, NotEnoughMemory
from forecast.common.memory import peak_bytes
from forecast.common.progress import progress
from forecast.common.tables import Row, Table
from forecast.common.text import decimals, mebibytes, three_digits
from forecast.common.timing import Spread, interleave, seconds_of
from forecast.training.steps import Peer, inference, training_step

LAG = BEFORE
"""Lag of the values in their tokens; with a lag of 0 the decoder would read its targets."""


def version() -> str:
    """Return the version of transformers; raise `InputError` if it is not installed."""
    try:
        import transformers
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise InputError("transformers is not installed: pip install -e '.[peers]'") from None
    return str(transformers.__version__)


def configuration_of(preset: Preset, factor: int, task: Task) -> dict[str, Any]:
    """Return their configuration that matches ours; features that ours lacks are off or minimal.

    Raise `InputError` if their model cannot have these sizes.
    """
    options = preset.options
    if preset.name != "informer":
        raise InputError(f"--model {preset.name}: transformers has only the paper's model: choose informer")
    if options["head_dim"] is not None:
        raise InputError(
            f"--model informer:head_dim={options['head_dim']}: transformers divides d_model by the number of heads: "
            "leave head_dim null"
        )
    return {
        "context_length": task.context_length,
        "prediction_length": task.horizon,
        "input_size": task.channels,
        "num_time_features": NUM_KNOWN,
        "lags_sequence": [LAG],
        "scaling": None,  # the windows are z-scores
        "distribution_output": "normal",  # two parameters, the fewest of its three distributions
        "attention_type": "prob",
        "sampling_factor": factor,
        "distil": options["distil"],
        "d_model": options["d_model"],
        "encoder_layers": options["encoder_layers"],
        "decoder_layers": options["decoder_layers"],
        "encoder_attention_heads": options["num_heads"],
        "decoder_attention_heads": options["num_heads"],
        "encoder_ffn_dim": options["d_ff"],
        "decoder_ffn_dim": options["d_ff"],
        "dropout": options["dropout"],
        "activation_dropout": options["dropout"],
        "attention_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
    }


def build_theirs(configuration: Mapping[str, Any]) -> nn.Module:
    """Return the model on the CPU, with the same weights at each call."""
    from transformers import InformerConfig, InformerForPrediction

    torch.manual_seed(SEED)
    model = InformerForPrediction(InformerConfig(**configuration))
    assert isinstance(model, nn.Module)
    return model


def their_peer(model: nn.Module, drawn: Drawn) -> Peer:
    """Return the model with its windows, on their device, and torch's AdamW with the settings of our optimizer.

    The forecast also gets the future values, since without them their `forward` decodes a single step. It consists of
    the parameters of a distribution for each step.
    """
    device, past = drawn.values.device, BEFORE + drawn.task.context_length
    model.to(device)
    inputs = {
        "past_values": drawn.values[:, :past],
        "past_time_features": drawn.known[:, :past],
        "past_observed_mask": torch.ones_like(drawn.values[:, :past]),
        "future_values": drawn.future,
        "future_time_features": drawn.future_known,
    }

    def loss() -> Tensor:
        value: Tensor = model(**inputs).loss
        return value

    def forecast() -> object:
        return model(**inputs).params

    settings = configured("optimizer", "adamw")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"], fused=True
    )
    return Peer("transformers", model, optimizer, loss, forecast)


TRAINING, INFERENCE = "training step", "inference"
PASSES: Mapping[str, Callable[[Peer, str], Callable[[], object]]] = {TRAINING: training_step, INFERENCE: inference}

COMPARED = (("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32"))
"""Precisions of ours and of theirs in each comparison."""


@dataclass(frozen=True)
class Contest:
    """Measured passes: the seconds of each round and the peak bytes, by model and precision."""

    task: Task
    passes: str
    peers: tuple[Peer, Peer]
    seconds: Mapping[tuple[str, str], Sequence[float]]
    peaks: Mapping[tuple[str, str], int]


def hold(task: Task, passes: str, peers: tuple[Peer, Peer], precisions: Sequence[str], rounds: int) -> Contest:
    """Warm up, measure memory, then time one pass per model, precision and round, with the models in turn.

    Raise `InputError` if the device does not have enough memory.
    """
    device = peers[0].device
    try:
        runs = {(peer.label, precision): PASSES[passes](peer, precision) for precision in precisions for peer in peers}
        for run in runs.values():
            for _ in range(WARM_UP[device.type]):
                run()
        base = {peer.label: peer.held_bytes(training=passes == TRAINING) for peer in peers}
        peaks = {key: base[key[0]] + _clean_peak(run, device) for key, run in runs.items()}
        gc.collect()
        named = {" ".join(key): key for key in runs}
        times = interleave(
            {name: _timed(runs[key], device) for name, key in named.items()}, least=rounds, most=rounds, seconds=0
        )
    except RuntimeError as error:
        if not ran_out_of_memory(error):
            raise
        raise NotEnoughMemory(f"{task.label}, batch {task.batch}: not enough memory: lower --batch") from None
    return Contest(task, passes, peers, {key: times[name] for name, key in named.items()}, peaks)


def rows_of(contest: Contest) -> list[Row]:
    """Return a row for each measured comparison, with times in ms and ratios of pairs."""
    measured = {precision for _, precision in contest.seconds}
    return [_row(contest, *pair) for pair in COMPARED if measured.issuperset(pair)]


def _row(contest: Contest, our_precision: str, their_precision: str) -> Row:
    ours, theirs = contest.peers
    keys = {"ours": (ours.label, our_precision), "theirs": (theirs.label, their_precision)}
    seconds = {side: contest.seconds[key] for side, key in keys.items()}
    ratios = [other / own for own, other in zip(seconds["ours"], seconds["theirs"], strict=True)]
    spreads = {side: Spread.of(times) for side, times in seconds.items()}
    ratio = Spread.of(ratios)
    row: Row = {
        "passes": contest.passes,
        "look_back": contest.task.context_length,
        "horizon": contest.task.horizon,
        "batch": contest.task.batch,
        "channels": contest.task.channels,
        "ours_precision": our_precision,
        "theirs_precision": their_precision,
        "pairs": ratio.repetitions,
        "times_as_fast": ratio.median,
        "times_as_fast_least": ratio.shortest,
        "times_as_fast_lower": ratio.lower,
        "times_as_fast_upper": ratio.upper,
        "times_as_fast_most": max(ratios),
    }
    for side, spread in spreads.items():
        row |= {
            f"{side}_median_ms": 1e3 * spread.median,
            f"{side}_lower_ms": 1e3 * spread.lower,
            f"{side}_upper_ms": 1e3 * spread.upper,
            f"{side}_windows_per_s": contest.task.batch / spread.median,
            f"{side}_peak_bytes": contest.peaks[keys[side]],
        }
    row["share_of_peak"] = row["ours_peak_bytes"] / row["theirs_peak_bytes"]
    return row | {"ours_parameters": ours.num_parameters, "theirs_parameters": theirs.num_parameters}


def _timed(run: Callable[[], object], device: torch.device) -> Callable[[], float]:
    return lambda: seconds_of(run, device)


def _clean_peak(run: Callable[[], object], device: torch.device) -> int:
    """Return the peak bytes of a pass after garbage collection, so that no earlier object is freed in it."""
    gc.collect()
    return peak_bytes(run, device)


HEADINGS = (
    "windows", "precision", "windows/s", "theirs", "speedup", "min to max", "peak MiB", "theirs", "peak ratio",
)  # fmt: skip


def peer_tables(rows: Sequence[Row], differences: Sequence[str]) -> Iterator[Table]:
    """Yield a table of training steps and one of inference; the differences are notes of the first."""
    notes = {
        TRAINING: (
            "training step: forward, loss, backward and update, without gradient clipping; medians over pairs; min to "
            "max: of the speedups of pairs; precision: ours, theirs",
            "peak: weights, buffers and optimizer state, plus the allocations of a pass",
            *differences,
        ),
        INFERENCE: (
            "inference: one batch with inference_mode, in evaluation mode; theirs is `forward` with the future values, "
            "without which it decodes one step; it returns a distribution for each step and the loss",
            "not measured: `generate`, their forecast, which decodes step by step for each of its samples",
        ),
    }
    for passes, lines in notes.items():
        shown = [row for row in rows if row["passes"] == passes]
        if shown:
            title = (
                f"{passes.capitalize()}, batch {shown[0]['batch']}: ours and the Informer of transformers "
                f"{shown[0]['transformers']}"
            )
            yield Table(title, HEADINGS, [_cells(row) for row in shown], lines)


def differences_of(preset: Preset, theirs: Mapping[str, Any], optimizer: Mapping[str, Any]) -> list[str]:
    """Return lines on the common sizes, the differences of the two models, and the settings that reduce them."""
    factor, start = theirs["sampling_factor"], preset.options["start_length"]
    settings = ", ".join(f"{key} {value}" for key, value in optimizer.items() if not key.startswith("_"))
    return [
        f"sizes of both: d_model {theirs['d_model']}, {theirs['encoder_attention_heads']} heads, "
        f"d_ff {theirs['encoder_ffn_dim']}, {theirs['encoder_layers']} encoder and {theirs['decoder_layers']} decoder "
        f"layers, distilling {'on' if theirs['distil'] else 'off'}, dropout {theirs['dropout']}",
        f"query selection: theirs multiplies every query with L sampled keys, L² products; ours with "
        f"{factor}·⌈ln L⌉ keys; active queries: theirs {factor}·⌈ln(L + 1)⌉, ours {factor}·⌈ln L⌉",
        "cross-attention: theirs computes explicit scores, ours uses torch's fused softmax",
        "head and loss: theirs predicts a normal distribution (its smallest head) with its negative log-likelihood, "
        "ours a number with its squared error",
        f"decoder: ours reads {start} steps of the past, then zeros; theirs has no start token and reads the true "
        f"value of the previous step (lag {theirs['lags_sequence'][0]}); "
        + ("both decode the horizon" if start == 0 else f"ours decodes {start} steps more than theirs"),
        "input of a step: ours is a convolution over three steps, plus the known inputs; theirs is the previous value, "
        "the known inputs and the logarithms of location and scale, through a linear map and a LayerNorm; positions: "
        "ours are computed, theirs come from a table",
        "settings of theirs: no scaling (the windows are z-scores), one lag, no layerdrop, no dropout of attention "
        "weights, dropout after the activation as in ours",
        f"optimizer of both: AdamW with {settings}; theirs is torch's class; bf16: torch's autocast for both",
    ]


def _cells(row: Row) -> list[str]:
    return [
        f"{row['look_back']:,} → {row['horizon']:,}",
        f"{row['ours_precision']}, {row['theirs_precision']}",
        three_digits(row["ours_windows_per_s"]),
        three_digits(row["theirs_windows_per_s"]),
        decimals(row["times_as_fast"]),
        f"{decimals(row['times_as_fast_least'])} to {decimals(row['times_as_fast_most'])}",
        mebibytes(row["ours_peak_bytes"]),
        mebibytes(row["theirs_peak_bytes"]),
        decimals(row["share_of_peak"]),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_task_options(parser)
    parser.add_argument("--pairs", type=positive, default=7, help="passes of each model (default: %(default)s)")
    add_run_options(parser)


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print; raise `InputError` before any output if an option is wrong."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    preset, attention, installed = parse_preset(options.model), parse("probsparse"), version()
    tasks = [Task(past, horizon, options.batch, options.channels) for past, horizon in options.windows]
    theirs = [configuration_of(preset, attention.arguments["factor"], task) for task in tasks]
    ours = [build_ours(preset, attention, task) for task in tasks]
    facts = {"transformers": installed, **facts_of(device, " and ".join(options.dtypes), arguments, "benchmarks.peers")}
    folder = open_folder(options.output)
    rows: list[Row] = []
    with progress(len(tasks) * len(PASSES), quiet=options.quiet) as (say, advance):
        for task, network, configuration in zip(tasks, ours, theirs, strict=True):
            drawn = task.draw(device)
            peers = our_peer(network, drawn), their_peer(build_theirs(configuration), drawn)
            for passes in PASSES:
                say(f"{task.label}: {passes}")
                rows += [row | facts for row in rows_of(hold(task, passes, peers, options.dtypes, options.pairs))]
                write_unfinished(folder, rows)
                advance(1)
    tables = list(peer_tables(rows, differences_of(preset, theirs[0], configured("optimizer", "adamw"))))
    design = f"{options.pairs} pairs of passes in turn, with alternating order."
    write_record(folder, heading_of("Peers: the same model in transformers", facts, design), tables, {CASES: rows})
    print_report(folder, tables, quiet=options.quiet)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark for the command line; return the exit code."""
    return call("benchmarks.peers", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    sys.exit(main())
