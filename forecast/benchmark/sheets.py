"""Tables for a person, from rows: what the Markdown file and the screen both show."""

from collections.abc import Iterator, Sequence

from forecast.benchmark.summary import Sweep
from forecast.common.tables import Row, Sheet
from forecast.common.text import NONE, decimals, heads_of, mebibytes, per_cent, spread, three_digits


def layer_sheets(rows: Sequence[Row]) -> Iterator[Sheet]:
    """Give the table of each layout of the layer, projections included."""
    layers = [row for row in rows if row["table"] == "layer"]
    for count, width in dict.fromkeys((row["heads"], row["head_dim"]) for row in layers):
        shown = [row for row in layers if (row["heads"], row["head_dim"]) == (count, width)]
        first = shown[0]
        title = f"A layer at {first['length']:,} tokens, d_model {first['d_model']}, {heads_of(count, width)}, forward"
        headings = ("mechanism", "mean ms", "median ms", "middle half ms", "times fused", "peak MiB", "% product limit")
        yield Sheet(title, headings, [_layer_cells(row) for row in shown], _left_out(shown))


def sweep_sheets(sweep: Sweep) -> Iterator[Sheet]:
    """Give a sweep's tables: the median and middle half of the time by length, and the peak memory."""
    headings = ("tokens", *sweep.labels)
    by_length = [[row for row in sweep.rows if row["length"] == length] for length in sweep.lengths]
    times = [[f"{group[0]['length']:,}", *(_time(row) for row in group)] for group in by_length]
    peaks = [[f"{group[0]['length']:,}", *(mebibytes(row["peak_bytes"]) for row in group)] for group in by_length]
    notes = _left_out(sweep.rows)
    yield Sheet(f"Median time in ms (half of the middle half's width), {sweep.title}", headings, times, notes)
    yield Sheet(f"Peak memory above the inputs in MiB, {sweep.title}", headings, peaks)


def exponent_sheet(summaries: Sequence[Row], title: str) -> Sheet:
    """Give the table of one sweep's exponents, measured beside what the declared cost lets expect."""
    headings = ("mechanism", "time", "expected", "measured", "memory", "expected", "measured", "fitted on")
    notes = (
        "expected of memory: as declared, and no less than 1, the output's own; an output that is a view of "
        "one row takes nothing",
    )
    return Sheet(f"Exponents in the length, {title}", headings, [_exponent_cells(row) for row in summaries], notes)


def crossing_sheet(summaries: Sequence[Row], title: str) -> Sheet:
    """Give the table of where each mechanism passes the fused softmax, and how near it is to the machine's limits."""
    headings = (
        "mechanism", "faster than fused from", "at", "times fused", "counted GFLOP", "% product limit", "% copy limit",
    )  # fmt: skip
    cells = [_crossing_cells(row) for row in summaries]
    notes = ("copy limit: the least traffic against a copy beyond any cache; inputs that fit in one can pass 100",)
    return Sheet(f"Against the fused softmax and the machine, {title}", headings, cells, notes)


def _layer_cells(row: Row) -> list[str]:
    middle = NONE if row["lower_ms"] is None else f"{three_digits(row['lower_ms'])} to {three_digits(row['upper_ms'])}"
    times = [three_digits(row["mean_ms"]), three_digits(row["median_ms"]), middle]
    return [
        row["mechanism"], *times, decimals(row["times_fused"]), mebibytes(row["peak_bytes"]),
        per_cent(row["share_of_product"]),
    ]  # fmt: skip


def _exponent_cells(row: Row) -> list[str]:
    fitted = NONE
    if row["time_fitted_from"] is not None:
        fitted = f"{row['time_fitted_from']:,} to {row['time_fitted_to']:,}"
    cells = [row["mechanism"]]
    for kind in ("time", "memory"):
        declared = row[f"{kind}_declared"] or NONE
        cells += [declared, decimals(row[f"{kind}_expected"]), decimals(row[f"{kind}_exponent"])]
    return [*cells, fitted]


def _crossing_cells(row: Row) -> list[str]:
    longest = NONE if row["longest"] is None else f"{row['longest']:,}"
    operations = row["operations_at_longest"]
    return [
        row["mechanism"], row["passes_fused"], longest, decimals(row["times_fused_at_longest"]),
        NONE if operations is None else three_digits(operations / 1e9),
        per_cent(row["share_of_product_at_longest"]), per_cent(row["share_of_copy_at_longest"]),
    ]  # fmt: skip


def _time(row: Row) -> str:
    if row["median_ms"] is None:
        return NONE
    return f"{three_digits(row['median_ms'])} ±{spread((row['upper_ms'] - row['lower_ms']) / 2)}"


def _left_out(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return each mechanism's first length that was left out, and why; and where the machine was busy."""
    first: dict[str, str] = {}
    for row in rows:
        if row["skipped"]:
            first.setdefault(row["mechanism"], f"{row['mechanism']}: no {row['length']:,}; {row['skipped']}")
    return (*first.values(), *_busy(rows))


def _busy(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lengths at which other processes took processors from the passes, if there are any."""
    if lengths := dict.fromkeys(row["length"] for row in rows if row.get("disturbed")):
        told = ", ".join(f"{length:,}" for length in lengths)
        yield f"busy machine: other processes took processors while {told} tokens were timed; these times are too long"
