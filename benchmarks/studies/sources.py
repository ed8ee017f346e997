"""Reproduce two tables of the sources: what attention costs, and the time of a layer by the form of its heads.

`python -m benchmarks.studies.sources --output benchmarks/records/attention/sources` counts the operations and the
memory of four forms of attention at 16,384 tokens. It then times layers with projections: one head as wide as the
model, two heads of 32 in a loop and vectorised, and linear attention. Each time is the mean of 50 forward passes after
a warm-up.

References
----------
Vaswani et al. 2017, arXiv:1706.03762, table 1; Zhou et al. 2021, arXiv:2012.07436, section 3; Katharopoulos et al.
2020, arXiv:2006.16236, section 3.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from forecast.attention._costs import Head
from forecast.attention._parsing import Variant, choose, parse
from forecast.attention._sampling import log_count
from forecast.benchmark.attention import TWO_HEADS_OF, measured_rows
from forecast.benchmark.case import Shape
from forecast.benchmark.machine import choose_device, facts_of
from forecast.benchmark.measure import Plan
from forecast.benchmark.options import FULL, add_run_options, open_folder
from forecast.benchmark.report import CASES, heading, print_report, write_record
from forecast.common.cli import finish, positive
from forecast.common.tables import Row, Table
from forecast.common.text import heads_of, mebibytes, per_cent, three_digits

MODULE = "benchmarks.studies.sources"

FORMS = ("full:implementation=explicit", "full:implementation=fused", "probsparse", "linear")
"""The rows of the first table."""

HEAD_WIDTH = 64
"""Width of the head that the first table counts."""


@dataclass(frozen=True)
class Part:
    """A part of a head's forward pass: its name and its operations; a multiplication and an addition are two."""

    name: str
    operations: float


def parts_of(variant: Variant, head: Head) -> list[Part]:
    """Return the parts of one head's forward pass; their sum is what the mechanism declares."""
    queries, keys, width, value_width = head.queries, head.keys, head.width, head.value_width
    if variant.name == "full":
        return [Part("all L·S scores, and their weights times V", 2 * queries * keys * (width + value_width))]
    if variant.name == "probsparse":
        sampled, active = (log_count(variant.arguments["factor"], length) for length in (keys, queries))
        return [
            Part("scores of all queries on U sampled keys", 2 * queries * sampled * width),
            Part("softmax of u queries over all keys", 2 * active * keys * (width + value_width)),
        ]
    assert variant.name == "linear"
    return [
        Part("the E·E sum φ(K)ᵀV, and φ(Q) times it", 2 * (queries + keys) * width * value_width),
        Part("normalizer", (2 * queries + keys) * width),
    ]


def largest_tensor(variant: Variant, head: Head) -> tuple[str, float]:
    """Return the largest tensor that one head needs beside its inputs and output: its name and number of elements."""
    if variant.name == "probsparse":
        return "sampled scores, L·U", head.queries * log_count(variant.arguments["factor"], head.keys)
    if variant.name == "linear":
        return "φ(K)ᵀV, E·E", head.width * head.value_width
    if variant.arguments["implementation"] == "explicit":
        return "weights, L·S", head.queries * head.keys
    return "maximum and sum of each row, 2 L", 2 * head.queries


def complexity_table(length: int) -> Table:
    """Return the table of costs and of their largest part, for one head of `HEAD_WIDTH` at `length` tokens."""
    head = Head(length, length, HEAD_WIDTH, HEAD_WIDTH)
    cells = []
    for variant in map(parse, FORMS):
        parts = parts_of(variant, head)
        total, largest = sum(part.operations for part in parts), max(parts, key=lambda part: part.operations)
        tensor, elements = largest_tensor(variant, head)
        costs = [str(variant.time_cost(False)), str(variant.memory_cost(False))]
        share = f"{largest.name} ({per_cent(largest.operations / total)} %)"
        label = f"{variant.name} {variant.arguments.get('implementation', '')}".strip()
        size = mebibytes(elements * torch.float32.itemsize)
        cells.append([label, *costs, share, tensor, three_digits(total / 1e9), size])
    headings = ("attention", "time", "memory", "bottleneck in time", "largest tensor", "GFLOP", "MiB")
    title = f"Complexity of one head of {HEAD_WIDTH} at {length:,} tokens, forward"
    notes = (
        "bottleneck: the part with the most operations, and its share of all",
        "largest tensor: in float32, beside the inputs and the output; "
        "fused kernels compute the L·S weights in blocks that they do not store",
    )
    return Table(title, headings, cells, notes, words=5)


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan of the second table: two layouts of heads, full and linear attention."""
    layouts = [(1, options.d_model), (2, TWO_HEADS_OF)]
    return Plan(
        device=choose_device(options.device, torch.float32),
        dtype=torch.float32,
        variants=choose(["linear"]),
        layers=[Shape(options.length, 1, count, width, d_model=options.d_model) for count, width in layouts],
        sweeps=[],
        layer_repetitions=options.repetitions,
        seconds=0.0,
        repetitions=1,
        limit=float("inf"),
        fit_from=options.length,
    )


def timing_table(rows: Sequence[Row]) -> Table:
    """Return the table of the layers' times, each relative to two vectorised heads of full attention."""
    first = rows[0]
    vectorised = next(row["mean_ms"] for row in rows if row["heads"] == 2 and row["mechanism"] == "full")
    cells = []
    for row in rows:
        form = heads_of(row["heads"], row["head_dim"])
        if row["heads"] > 1:
            form += ", loop over heads" if "loop" in row["mechanism"] else ", vectorised"
        quartiles = f"{three_digits(row['lower_ms'])} to {three_digits(row['upper_ms'])}"
        times = [three_digits(row["mean_ms"]), three_digits(row["median_ms"]), quartiles]
        ratio = three_digits(row["mean_ms"] / vectorised)
        cells.append([row["mechanism"].partition(",")[0], form, *times, ratio, mebibytes(row["peak_bytes"])])
    title = f"A layer with projections at {first['length']:,} tokens, d_model {first['d_model']}, forward"
    headings = ("attention", "heads", "mean ms", "median ms", "quartiles ms", "mean / vectorised full", "peak MiB")
    notes = (f"mean of {first['repetitions']} passes after a warm-up; the cases of a layout take turns",)
    others = [row["other_processors"] for row in rows if row["other_processors"] is not None]
    busy = (
        f"other programs used up to {max(others):.1f} processors meanwhile"
        if any(row["disturbed"] for row in rows)
        else ""
    )
    return Table(title, headings, cells, (*notes, *filter(None, [busy])), words=2)


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Count, measure, write and print both tables."""
    if options.threads:
        torch.set_num_threads(options.threads)
    plan = plan_of(options)
    facts = facts_of(plan.device, "fp32", arguments, MODULE)
    folder = open_folder(options.output)
    rows = measured_rows(plan, facts, folder, quiet=options.quiet, opening=f"{plan.num_cases} layers")
    tables = [complexity_table(options.length), timing_table(rows)]
    write_record(folder, heading(rows[0], facts), tables, {CASES: rows})
    print_report(folder, tables, quiet=options.quiet)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study on the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--length", type=positive, default=FULL["layer_length"], help="number of tokens (default: %(default)s)")
    add("--d-model", type=positive, default=512, help="width of the layer (default: %(default)s)")
    add("--repetitions", type=positive, default=FULL["layer_repetitions"], help="passes (default: %(default)s)")
    add_run_options(parser)
    options = parser.parse_args(given)
    return finish(lambda: run(options, given))


if __name__ == "__main__":
    sys.exit(main())
