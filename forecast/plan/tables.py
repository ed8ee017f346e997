"""The table of a plan."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.common.tables import Table
from forecast.common.text import NONE, duration, from_to, three_digits
from forecast.common.timing import LEAST_ROUNDS, always_less
from forecast.plan.estimates import BY_ROUND, Row
from forecast.runs.results import start_name

HEADINGS = (
    *("mechanism", "step", "epoch", "training", "min to max", "until scores", "peak MiB", "largest batch"),
    "largest look-back",
)
LESS, ALIKE = "<", "≈"


def plan_table(rows: Sequence[Row], facts: Mapping[str, Any]) -> Table:
    """Return the table of the mechanisms."""
    rounds = "one round" if facts["rounds"] == 1 else f"median of {facts['rounds']} rounds"
    notes = [
        *_start(rows, facts),
        f"step: from one step to the next; training: {facts['steps']:,} steps and their validations; min to max: over "
        "the rounds; until scores: also preparation and the scores of all windows",
        f"times and peak: {rounds}, mechanisms in turn, each measured in a separate process",
        *_busy(rows),
        *_orders(rows, facts["rounds"]),
        f"largest batch, largest look-back: conservative estimates for {_usable(facts)}, from the memory of other "
        f"sizes in the first round; *: limited by the data{' or the start' if facts.get('start_from') else ''}",
        f"suggested batch, twice of which does not fit or is less than 10 % faster: {_suggested(rows)}",
        *(f"{row['mechanism']}: {row['why']}" for row in rows if row["why"]),
        *(f"{row['mechanism']}: {_trial(trial, row)}" for row in rows for trial in row["trials"] or ()),
    ]
    title = (
        f"{facts['data']}, look-back {facts['context_length']:,}, horizon {facts['horizon']:,}, "
        f"batch {facts['batch']:,}: predicted cost of a training"
    )
    return Table(title, HEADINGS, [_cells(row) for row in rows], tuple(notes))


def _start(rows: Sequence[Row], facts: Mapping[str, Any]) -> list[str]:
    """Return a note on the weights that begin the training, and their network; none for random ones."""
    if not (start := facts.get("start_from")):
        return []
    size = [f"its architecture has {row['parameters']:,} parameters" for row in rows if row["parameters"]][:1]
    rate = [f"learning rate {facts['learning_rate']:g}"] if facts["learning_rate"] else []
    steps = f"{facts['steps']:,} steps, {facts['steps'] * facts['batch'] / facts['train']:.3g} passes over the data"
    return [f"start: {'; '.join([start_name(start), *size, *rate, steps])}"]


def _suggested(rows: Sequence[Row]) -> str:
    batches = [f"{row['mechanism']} {row['suggested_batch']:,}" for row in rows if row["suggested_batch"]]
    return ", ".join(batches) or "not measured on a GPU"


def _busy(rows: Sequence[Row]) -> list[str]:
    """Return a note on the rounds in which other processes used the processors, if any."""
    words = [f"{row['mechanism']} ({row['disturbed_rounds']})" for row in rows if row["disturbed_rounds"]]
    if not words:
        return []
    return [
        f"busy machine: other processes used the processors in rounds of {', '.join(words)}; the times are too long "
        "and the trainings are not compared: plan again on an idle machine"
    ]


def _orders(rows: Sequence[Row], rounds: int) -> list[str]:
    """Return a note that orders the mechanisms by time and by memory, if there are enough rounds."""
    keys = {"training": "training_seconds", "peak": "peak_mib"}
    if _busy(rows):
        del keys["training"]
    chains = {what: _chain(rows, key) for what, key in keys.items()}
    text = "; ".join(f"{what}: {chain}" for what, chain in chains.items() if chain)
    if not text:
        return []
    if rounds < LEAST_ROUNDS:
        return [f"the mechanisms are not compared: that needs at least {LEAST_ROUNDS} rounds"]
    marks = {LESS: "less in every round", ALIKE: "order uncertain, rounds overlap"}
    return ["; ".join([text, *(f"{mark}: {meaning}" for mark, meaning in marks.items() if mark in text)])]


def _chain(rows: Sequence[Row], key: str) -> str:
    """Return the mechanisms by increasing median, with LESS where all on the left are less in every round."""
    known = sorted((row for row in rows if row[key] is not None), key=lambda row: float(row[key]))
    rounds = [row[BY_ROUND[key]] for row in known]
    chain = [row["mechanism"] for row in known[:1]]
    for number, row in enumerate(known[1:], 1):
        certain = all(always_less(left, right) for left in rounds[:number] for right in rounds[number:])
        chain += [LESS if certain else ALIKE, row["mechanism"]]
    return " ".join(chain) if len(known) > 1 else ""


def _usable(facts: Mapping[str, Any]) -> str:
    """Return the memory that the estimates may fill, and the total if it is larger."""
    memory, usable = facts["memory_gib"], facts["room_gib"]
    return f"{usable:.2f} GiB" + (f" of {memory:.2f} GiB" if usable < memory else "")


def _cells(row: Row) -> list[str]:
    return [
        row["mechanism"],
        duration(row["loop_seconds"]),
        duration(row["epoch_seconds"]),
        duration(row["training_seconds"]),
        _range(row["training_rounds"]),
        duration(row["result_seconds"]),
        three_digits(row["peak_mib"]),
        _size(row, "largest_batch", "batch_bound"),
        _size(row, "largest_look_back", "look_back_bound"),
    ]


def _range(seconds: Sequence[float] | None) -> str:
    """Return the minimum and the maximum, with one unit if both have the same."""
    if seconds is None:
        return NONE
    text = from_to(seconds, duration)
    return text.replace(f" {text.split()[-1]} to ", " to ")


def _size(row: Row, key: str, bound: str) -> str:
    if row[key] is None:
        return NONE
    return f"{row[key]:,}{'*' if row[bound] == 'data' else ''}"


def _trial(trial: Mapping[str, Any], row: Row) -> str:
    size = row["largest_batch"] if trial["size"] == "batch" else row["largest_look_back"]
    step = f"one step at {trial['size']} {size:,}"
    if trial["why"]:
        return f"{step} failed: {trial['why']}"
    return f"{step} succeeded, peak {trial['peak_mib']:,.0f} MiB"
