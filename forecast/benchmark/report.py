"""Output of a benchmark: rows, tables and a picture."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from rich.console import Console

from forecast.attention._costs import Cost
from forecast.attention._parsing import Variant, reference_label
from forecast.benchmark.machine import Limits
from forecast.benchmark.measure import Measured
from forecast.common.files import replacing
from forecast.common.tables import WIDTH, Row, Table, show, to_csv
from forecast.common.text import NONE, decimals, heads_of, mebibytes, per_cent, spread, three_digits
from forecast.evaluation.crossing import crossing, crossing_text, exponent, slope


def row_of(measured: Measured, reference: Measured, limits: Limits, dtype: torch.dtype) -> Row:
    """Return a case's row: shape, times in ms, bytes, fractions of the machine's limits; None if unknown.

    `times_fused` is the ratio of its median time to the median of `reference`, the fused softmax of the same group.
    """
    case, shape, spread = measured.case, measured.case.shape, measured.spread
    operations, moved = case.operations(dtype), case.least_bytes(dtype)
    seconds = None if spread is None else spread.median
    fused = None if reference.spread is None else reference.spread.median
    return {
        "table": measured.table,
        "mechanism": case.label,
        "passes": shape.passes,
        "causal": shape.causal,
        "length": shape.length,
        "batch": shape.batch,
        "heads": shape.num_heads,
        "head_dim": shape.head_dim,
        "d_model": shape.d_model,
        "repetitions": None if spread is None else spread.repetitions,
        "mean_ms": None if spread is None else 1e3 * spread.mean,
        "median_ms": None if seconds is None else 1e3 * seconds,
        "lower_ms": None if spread is None else 1e3 * spread.lower,
        "upper_ms": None if spread is None else 1e3 * spread.upper,
        "shortest_ms": None if spread is None else 1e3 * spread.shortest,
        "peak_bytes": measured.peak_bytes,
        "times_fused": None if seconds is None or fused is None else seconds / fused,
        "operations": operations,
        "least_bytes": moved,
        "share_of_product": _share(operations, seconds, limits.operations),
        "share_of_copy": _share(moved, seconds, limits.bytes),
        "skipped": measured.skipped,
        "other_processors": None if math.isnan(measured.load.others) else measured.load.others,
        "disturbed": measured.load.disturbed,
    }


def rows_of(group: Sequence[Measured], limits: Limits, dtype: torch.dtype, facts: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a group, which includes the fused softmax; each row ends with `facts` of the machine."""
    fused = reference_label()
    reference = next(measured for measured in group if measured.case.label == fused)
    ends = {"product_gflops": limits.operations / 1e9, "copy_gbs": limits.bytes / 1e9, **facts}
    return [row_of(measured, reference, limits, dtype) | ends for measured in group]


def _share(work: float | None, seconds: float | None, limit: float) -> float | None:
    return None if work is None or seconds is None else work / seconds / limit


@dataclass(frozen=True)
class Sweep:
    """The rows of all mechanisms over all lengths, for the same passes, causal or not."""

    passes: str
    causal: bool
    rows: Sequence[Row]

    @property
    def title(self) -> str:
        """Text for the measured passes."""
        return self.passes + (", causal" if self.causal else "")

    @property
    def lengths(self) -> list[int]:
        """All lengths in increasing order."""
        return sorted({row["length"] for row in self.rows})

    @property
    def labels(self) -> list[str]:
        """All mechanisms, in the order of the run."""
        return list(dict.fromkeys(row["mechanism"] for row in self.rows))

    def column(self, label: str, key: str) -> dict[int, Any]:
        """Return the figures of a mechanism by length, for the measured lengths."""
        rows = [row for row in self.rows if row["mechanism"] == label and not row["skipped"]]
        return {row["length"]: row[key] for row in rows}


def sweeps_of(rows: Sequence[Row]) -> Iterator[Sweep]:
    """Yield the sweeps among `rows`, in the order of the run."""
    swept = (row for row in rows if row["table"] == "lengths")
    for (passes, causal), members in groupby(swept, lambda row: (row["passes"], row["causal"])):
        yield Sweep(passes, causal, list(members))


def summarise(sweep: Sweep, variant: Variant, fit_from: int) -> Row:
    """Return one mechanism's summary: exponents over lengths of at least `fit_from`, and the crossover.

    From length `passes_fused_at` it is faster than the fused softmax; None if it never is (see `passes_fused`).
    """
    label, time, memory = variant.label, variant.time_cost(sweep.causal), variant.memory_cost(sweep.causal)
    times, peaks = sweep.column(label, "median_ms"), sweep.column(label, "peak_bytes")
    fused = sweep.column(reference_label(), "median_ms")
    is_fused = label == reference_label()
    longest = max(times, default=None)

    def last(key: str) -> Any:
        return None if longest is None else sweep.column(label, key)[longest]

    return {
        "mechanism": label,
        "passes": sweep.passes,
        "causal": sweep.causal,
        **_exponents("time", times, time, fit_from),
        **_exponents("memory", peaks, memory, fit_from),
        "passes_fused_at": None if is_fused else crossing(times, fused),
        "passes_fused": "" if is_fused else crossing_text(times, fused),
        "longest": longest,
        "operations_at_longest": last("operations"),
        "times_fused_at_longest": last("times_fused"),
        "share_of_product_at_longest": last("share_of_product"),
        "share_of_copy_at_longest": last("share_of_copy"),
    }


def _exponents(kind: str, figures: dict[int, Any], cost: Cost | None, fit_from: int) -> Row:
    fit = exponent(figures, fit_from)
    growth = None if cost is None else cost.with_output() if kind == "memory" else cost
    return {
        f"{kind}_declared": None if cost is None else str(cost),
        f"{kind}_expected": None if fit is None or growth is None else _expected_exponent(growth, fit.lengths),
        f"{kind}_exponent": None if fit is None else fit.value,
        f"{kind}_fitted_from": None if fit is None else fit.lengths[0],
        f"{kind}_fitted_to": None if fit is None else fit.lengths[-1],
    }


def _expected_exponent(cost: Cost, lengths: Sequence[int]) -> float:
    """Return the exponent of the declared cost, fitted over `lengths`; about length + logarithms / ln L."""
    return slope(lengths, [cost.between(lengths[0], length) for length in lengths])


MARKERS = "osD^vP*X"


def draw_sweeps(path: Path, sweeps: Sequence[Sweep], title: str) -> None:
    """Write a PNG with a row per sweep: time on the left, peak memory on the right, fused softmax in bold."""
    figure = Figure(figsize=(11, 1.2 + 3.4 * len(sweeps)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(sweeps), 2, squeeze=False)
    for (left, right), sweep in zip(panels, sweeps, strict=True):
        _draw(left, sweep, "median_ms", 1.0, "median time, ms")
        _draw(right, sweep, "peak_bytes", 2.0**-20, "peak memory without inputs, MiB")
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5, frameon=False
    )
    figure.suptitle(title, fontsize=10, parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})


def _draw(panel: Axes, sweep: Sweep, key: str, unit: float, name: str) -> None:
    colours = colormaps["tab10"]
    for place, label in enumerate(sweep.labels):
        points = {length: value * unit for length, value in sweep.column(label, key).items()}
        fused = label == reference_label()
        panel.plot(
            list(points),
            list(points.values()),
            label=label,
            color="black" if fused else colours(place % 10),
            linewidth=3.0 if fused else 1.2,
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
        )
    panel.set_xscale("log", base=2)
    if any(map(len, (line.get_xdata() for line in panel.get_lines()))):  # type: ignore[arg-type]
        panel.set_yscale("log")
    else:
        panel.text(0.5, 0.5, "no measurements", ha="center", transform=panel.transAxes, fontsize=8)
    panel.set_xticks(sweep.lengths, [f"{length:,}" for length in sweep.lengths], fontsize=7, rotation=45)
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("tokens", fontsize=8)
    panel.set_ylabel(name, fontsize=8)
    panel.set_title(sweep.title, fontsize=9)
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25)


def layer_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Yield the table of each layer layout, with projections."""
    layers = [row for row in rows if row["table"] == "layer"]
    for count, width in dict.fromkeys((row["heads"], row["head_dim"]) for row in layers):
        shown = [row for row in layers if (row["heads"], row["head_dim"]) == (count, width)]
        first = shown[0]
        title = f"A layer at {first['length']:,} tokens, d_model {first['d_model']}, {heads_of(count, width)}, forward"
        headings = ("mechanism", "mean ms", "median ms", "quartiles ms", "time / fused", "peak MiB", "% product limit")
        yield Table(title, headings, [_layer_cells(row) for row in shown], _left_out(shown))


def sweep_tables(sweep: Sweep) -> Iterator[Table]:
    """Yield a sweep's tables by length: median time with half its interquartile range, and peak memory."""
    headings = ("tokens", *sweep.labels)
    by_length = [[row for row in sweep.rows if row["length"] == length] for length in sweep.lengths]
    times = [[f"{group[0]['length']:,}", *(_time(row) for row in group)] for group in by_length]
    peaks = [[f"{group[0]['length']:,}", *(mebibytes(row["peak_bytes"]) for row in group)] for group in by_length]
    notes = _left_out(sweep.rows)
    yield Table(f"Median time in ms ± half the interquartile range, {sweep.title}", headings, times, notes)
    yield Table(f"Peak memory without inputs in MiB, {sweep.title}", headings, peaks)


def exponent_table(summaries: Sequence[Row], title: str) -> Table:
    """Return the table of a sweep's exponents, measured and expected from the declared cost."""
    headings = ("mechanism", "time", "expected", "measured", "memory", "expected", "measured", "fitted on")
    notes = (
        "expected memory: as declared, at least 1 for the output; an output that is a view of one row needs no memory",
    )
    return Table(f"Exponents in the length, {title}", headings, [_exponent_cells(row) for row in summaries], notes)


def crossing_table(summaries: Sequence[Row], title: str) -> Table:
    """Return the table of the crossovers with the fused softmax, and of the fractions of the machine's limits."""
    headings = (
        "mechanism", "faster than fused from", "at length", "time / fused", "GFLOP", "% product limit", "% copy limit",
    )  # fmt: skip
    cells = [_crossing_cells(row) for row in summaries]
    notes = ("copy limit: minimum memory traffic relative to a large copy; it can exceed 100 if the inputs are cached",)
    return Table(f"Against the fused softmax and the machine, {title}", headings, cells, notes)


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
    """Return a note per mechanism with its first skipped length and the reason, and notes on a busy machine."""
    first: dict[str, str] = {}
    for row in rows:
        if row["skipped"]:
            first.setdefault(row["mechanism"], f"{row['mechanism']}: skipped at {row['length']:,}: {row['skipped']}")
    return (*first.values(), *_busy(rows))


def _busy(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a note on the lengths at which other processes used the processors, if any."""
    if lengths := dict.fromkeys(row["length"] for row in rows if row.get("disturbed")):
        text = ", ".join(f"{length:,}" for length in lengths)
        yield f"busy machine: other processes used the processors at {text} tokens; these times are too long"


CASES, SUMMARY, OPERATIONS = "cases.csv", "summary.csv", "operations.csv"
TABLES, PICTURE = "tables.md", "lengths.png"
UNFINISHED = "cases.unfinished.csv"
"""Rows of a stopped run; an earlier record in the same folder stays."""


def write_unfinished(folder: Path, rows: Sequence[Row]) -> None:
    """Write the rows that have been measured so far."""
    _write(folder / UNFINISHED, to_csv(rows))


def write_report(
    folder: Path, rows: Sequence[Row], variants: Sequence[Variant], fit_from: int, facts: Mapping[str, Any]
) -> list[Table]:
    """Write the cases, the tables and, for sweeps, the summary and the picture; return the tables."""
    sweeps = list(sweeps_of(rows))
    tables = list(layer_tables(rows))
    summaries: list[Row] = []
    for sweep in sweeps:
        lines = [summarise(sweep, variant, fit_from) for variant in variants]
        tables += [*sweep_tables(sweep), exponent_table(lines, sweep.title), crossing_table(lines, sweep.title)]
        summaries += lines
    write_record(folder, heading(rows[0], facts), tables, {CASES: rows, SUMMARY: summaries})
    if sweeps:
        draw_sweeps(folder / PICTURE, sweeps, f"{facts['machine']}, {facts['dtype']}")
    return tables


def write_record(folder: Path, head: str, tables: Sequence[Table], files: Mapping[str, Sequence[Row]]) -> None:
    """Write the rows to CSV files by name and the tables below `head`, replacing an earlier record."""
    for stale in (SUMMARY, OPERATIONS, PICTURE):  # from an earlier run
        (folder / stale).unlink(missing_ok=True)
    for name, rows in files.items():
        if rows:
            _write(folder / name, to_csv(rows))
    _write(folder / TABLES, "\n".join([head, *(table.to_markdown() for table in tables)]).encode())
    (folder / UNFINISHED).unlink(missing_ok=True)


def heading(row: Row, facts: Mapping[str, Any]) -> str:
    """Return the lines above the attention benchmark's tables: the machine, its measured limits, the command."""
    limits = f"matrix product {row['product_gflops']:,.0f} GFLOP/s, copy {row['copy_gbs']:,.1f} GB/s (read and write)"
    return heading_of("Attention: time and memory", facts, f"Measured limits of the machine in this run: {limits}.")


def heading_of(title: str, facts: Mapping[str, Any], *lines: str) -> str:
    """Return the heading of a run's tables: the machine, further `lines`, the command."""
    machine = (
        f"{facts['machine']}, torch {facts['torch']}, {facts['dtype']}, {facts['date']}, commit {facts['commit']}."
    )
    return "\n".join([f"# {title}", "", machine, *lines, f"`{facts['command']}`", ""])


def print_report(folder: Path, tables: Sequence[Table], *, quiet: bool, note: str = "") -> None:
    """Print the tables and a note unless `quiet`, and then the paths of the files."""
    if not quiet:
        show(Console(width=max(Console().width, WIDTH)), tables)
        print(note, end="\n" if note else "")
    written = [name for name in (CASES, SUMMARY, OPERATIONS, TABLES, PICTURE) if (folder / name).is_file()]
    print(f"{shlex.quote(str(folder))}: {', '.join(written)}")


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)
