"""The table of a plan."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecast.common.tables import Table
from forecast.common.text import NONE, duration, from_to, three_digits
from forecast.common.timing import LEAST_ROUNDS, always_less
from forecast.plan.estimates import BY_ROUND, Row

HEADINGS = (
    *("mechanism", "step", "epoch", "training", "of the rounds", "to the result", "peak MiB", "largest batch"),
    "look-back",
)
LESS, ALIKE = "<", "≈"


def plan_table(rows: Sequence[Row], facts: Mapping[str, Any]) -> Table:
    """Return the table of the mechanisms."""
    notes = [
        f"step: from one to the next; training: {facts['steps']:,} steps and their validations; to the result: with "
        "what comes before and with the scores of all windows",
        f"times and peak: {_rounds(facts['rounds'])}, the mechanisms in turn, each time in a process of its own",
        *_busy(rows),
        *_orders(rows, facts["rounds"]),
        f"largest batch, largest look-back: estimates for {_room(facts)}, from what other passes allocate in the first "
        "round, on the safe side; *: the data have no more",
        *(f"{row['mechanism']}: {row['why']}" for row in rows if row["why"]),
        *(f"{row['mechanism']}: {_trial(trial, row)}" for row in rows for trial in row["trials"] or ()),
    ]
    title = (
        f"{facts['data']}, look-back {facts['context_length']:,}, horizon {facts['horizon']:,}, "
        f"batch {facts['batch']:,}: what a training takes"
    )
    return Table(title, HEADINGS, [_cells(row) for row in rows], tuple(notes))


def _rounds(rounds: int) -> str:
    return "of one round" if rounds == 1 else f"the median of {rounds} rounds"


def _busy(rows: Sequence[Row]) -> list[str]:
    """Say in how many rounds other processes took processors from a mechanism, if in any."""
    words = [f"{row['mechanism']} ({row['disturbed_rounds']})" for row in rows if row["disturbed_rounds"]]
    if not words:
        return []
    return [
        f"busy machine: other processes took processors in rounds of {', '.join(words)}; the times are too long, and "
        "which training takes less is not said: plan again on a quiet machine"
    ]


def _orders(rows: Sequence[Row], rounds: int) -> list[str]:
    """Say which mechanisms take less time and less memory, as far as the rounds tell."""
    keys = {"training": "training_seconds", "peak": "peak_mib"}
    if _busy(rows):
        del keys["training"]
    chains = {what: _chain(rows, key) for what, key in keys.items()}
    told = "; ".join(f"{what}: {chain}" for what, chain in chains.items() if chain)
    if not told:
        return []
    if rounds < LEAST_ROUNDS:
        return [f"which of two mechanisms takes less, fewer than {LEAST_ROUNDS} rounds do not tell"]
    marks = {LESS: "in every round", ALIKE: "in no certain order, since rounds overlap"}
    return ["; ".join([told, *(f"{mark}: {means}" for mark, means in marks.items() if mark in told)])]


def _chain(rows: Sequence[Row], key: str) -> str:
    """Return the mechanisms by rising medians; LESS where all before it are always less than all after it."""
    known = sorted((row for row in rows if row[key] is not None), key=lambda row: float(row[key]))
    rounds = [row[BY_ROUND[key]] for row in known]
    chain = [row["mechanism"] for row in known[:1]]
    for number, row in enumerate(known[1:], 1):
        apart = all(always_less(one, other) for one in rounds[:number] for other in rounds[number:])
        chain += [LESS if apart else ALIKE, row["mechanism"]]
    return " ".join(chain) if len(known) > 1 else ""


def _room(facts: Mapping[str, Any]) -> str:
    """Return the memory that the estimates fill, and that of which it is a part."""
    memory, room = facts["memory_gib"], facts["room_gib"]
    return f"{room:.2f} GiB" + (f" of {memory:.2f} GiB" if room < memory else "")


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
    """Return the least and the most, the unit once where it is the same."""
    if seconds is None:
        return NONE
    told = from_to(seconds, duration)
    return told.replace(f" {told.split()[-1]} to ", " to ")


def _size(row: Row, key: str, bound: str) -> str:
    if row[key] is None:
        return NONE
    return f"{row[key]:,}{'*' if row[bound] == 'data' else ''}"


def _trial(trial: Mapping[str, Any], row: Row) -> str:
    size = row["largest_batch"] if trial["size"] == "batch" else row["largest_look_back"]
    said = f"one step at {trial['size']} {size:,}"
    if trial["why"]:
        return f"{said} does not fit: {trial['why']}"
    return f"{said} was made, with a peak of {trial['peak_mib']:,.0f} MiB"
