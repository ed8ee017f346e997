"""Two models on the same windows, timed in turn: a pass of each in every precision, round after round."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from forecast.benchmark.measure import WARM_UP
from forecast.benchmark.models import Task
from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.memory import peak_bytes
from forecast.common.tables import Row
from forecast.common.timing import Spread, interleave, seconds_of
from forecast.training.steps import Peer, inference, training_step

TRAINING, INFERENCE = "training step", "inference"
PASSES: Mapping[str, Callable[[Peer, str], Callable[[], object]]] = {TRAINING: training_step, INFERENCE: inference}

COMPARED = (("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32"))
"""The arithmetic of ours and of theirs in each comparison."""


@dataclass(frozen=True)
class Contest:
    """What the passes took: the seconds of each round and the peak bytes, by model and precision."""

    task: Task
    passes: str
    peers: tuple[Peer, Peer]
    seconds: Mapping[tuple[str, str], Sequence[float]]
    peaks: Mapping[tuple[str, str], int]


def hold(task: Task, passes: str, peers: tuple[Peer, Peer], precisions: Sequence[str], rounds: int) -> Contest:
    """Warm up, take the memory, then time one pass of each model in each precision a round, models in turn.

    Raises
    ------
    InputError
        If the device has not enough memory.
    """
    device = peers[0].device
    try:
        runs = {(peer.label, precision): PASSES[passes](peer, precision) for precision in precisions for peer in peers}
        for run in runs.values():
            for _ in range(WARM_UP[device.type]):
                run()
        held = {peer.label: peer.held_bytes(training=passes == TRAINING) for peer in peers}
        peaks = {key: held[key[0]] + _clean_peak(run, device) for key, run in runs.items()}
        gc.collect()
        named = {" ".join(key): key for key in runs}
        times = interleave(
            {name: _timed(runs[key], device) for name, key in named.items()}, least=rounds, most=rounds, seconds=0
        )
    except RuntimeError as error:
        if not ran_out_of_memory(error):
            raise
        raise InputError(f"{task.label}, batch {task.batch}: the device has not enough memory: lower --batch") from None
    return Contest(task, passes, peers, {key: times[name] for name, key in named.items()}, peaks)


def rows_of(contest: Contest) -> list[Row]:
    """Give a row for each comparison that was measured; times in milliseconds, ratios pair by pair."""
    measured = {precision for _, precision in contest.seconds}
    return [_row(contest, *pair) for pair in COMPARED if measured.issuperset(pair)]


def _row(contest: Contest, our_precision: str, their_precision: str) -> Row:
    ours, theirs = contest.peers
    keys = {"ours": (ours.label, our_precision), "theirs": (theirs.label, their_precision)}
    seconds = {side: contest.seconds[key] for side, key in keys.items()}
    ratios = [other / own for own, other in zip(seconds["ours"], seconds["theirs"], strict=True)]
    spreads = {side: Spread.of(taken) for side, taken in seconds.items()}
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
    """Give the peak of a pass in which nothing that was there before is thrown away."""
    gc.collect()
    return peak_bytes(run, device)
