"""The attention benchmark: every mechanism in a layer, and alone over increasing lengths."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from forecast.attention._parsing import choose
from forecast.benchmark.case import DTYPES, Shape
from forecast.benchmark.machine import choose_device, facts_of, measure_limits
from forecast.benchmark.measure import Measured, Plan, measure
from forecast.benchmark.options import FULL, open_folder, settle
from forecast.benchmark.report import print_report, rows_of, write_report, write_unfinished
from forecast.common.errors import InputError
from forecast.common.progress import progress
from forecast.common.tables import Row
from forecast.common.timing import clock

TWO_HEADS_OF = 32
"""Width of each head in the layer with two heads, an example whose total width is not d_model."""


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print; raise `InputError` before any measurement if the options conflict."""
    if options.threads:
        torch.set_num_threads(options.threads)
    plan = plan_of(options)
    facts = facts_of(plan.device, options.dtype, arguments)
    folder = open_folder(options.output)
    rows = measured_rows(plan, facts, folder, quiet=options.quiet, opening=_opening(plan))
    tables = write_report(folder, rows, plan.variants, plan.fit_from, facts)
    print_report(folder, tables, quiet=options.quiet, note="" if options.full else _left_out(options, rows))


def measured_rows(plan: Plan, facts: Mapping[str, Any], folder: Path, *, quiet: bool, opening: str) -> list[Row]:
    """Measure the machine's limits and all cases of a plan; show progress, and keep the rows so far in `folder`."""
    rows: list[Row] = []
    with progress(plan.num_cases, quiet=quiet, opening=opening) as (say, advance):
        say("the machine's limits")
        limits = measure_limits(plan.device, plan.dtype)

        def add(group: list[Measured]) -> None:
            rows.extend(rows_of(group, limits, plan.dtype, facts))
            write_unfinished(folder, rows)
            advance(len(group))

        measure(plan, say, add)
    return rows


def plan_of(options: Namespace) -> Plan:
    """Return the plan for the options of the command line."""
    settle(options)
    dtype = DTYPES[options.dtype]
    device, variants = choose_device(options.device, dtype), choose(options.mechanisms)
    lengths = powers_of_two(options.shortest, options.longest) if "lengths" in options.tables else ()
    return Plan(
        device=device,
        dtype=dtype,
        variants=variants,
        layers=layer_shapes(options.layer_length, options.d_model) if "layer" in options.tables else [],
        sweeps=[
            [Shape(length, options.batch, options.heads, options.head_dim, causal, backward) for length in lengths]
            for causal in (False, True)[: 1 + options.causal]
            for backward in (False, True)[: 2 - options.no_backward]
            if lengths
        ],
        layer_repetitions=options.layer_repetitions,
        seconds=options.seconds,
        repetitions=options.repetitions,
        limit=options.limit,
        fit_from=options.fit_from,
        budget=None if options.minutes is None else 60 * options.minutes,
    )


def layer_shapes(length: int, d_model: int) -> list[Shape]:
    """Return the shapes of the layers with projections: one head, two heads of 32, eight heads."""
    if d_model % 8:
        raise InputError(f"--d-model {d_model}: must be a multiple of 8, since one layer has eight heads")
    heads = [(1, d_model), (2, TWO_HEADS_OF), (8, d_model // 8)]
    return [Shape(length, 1, count, width, d_model=d_model) for count, width in heads]


def powers_of_two(shortest: int, longest: int) -> tuple[int, ...]:
    """Return `shortest` and its doublings, up to `longest`."""
    if longest < shortest:
        raise InputError(f"--longest {longest} is below --shortest {shortest}: raise --longest or lower --shortest")
    return tuple(shortest * 2**n for n in range((longest // shortest).bit_length()))


def _opening(plan: Plan) -> str:
    """Return a line with the number of cases and the expected duration."""
    cases = f"{len(plan.variants)} mechanisms, {plan.num_cases} cases"
    if plan.budget is None:
        return f"{cases}, all measured: almost an hour on two cores with the defaults"
    return f"{cases}, within about {clock(plan.budget)} (--minutes); cases without time are skipped and listed"


def _left_out(options: Namespace, rows: Sequence[Row]) -> str:
    """Return a note with the cases skipped for time, and the reduced options that --full would raise."""
    late = [row for row in rows if row["skipped"].startswith("time")]
    cases = [
        f"{label} ({', '.join(_places([row for row in rows if row['mechanism'] == label]))})"
        for label in dict.fromkeys(row["mechanism"] for row in late)
    ]
    used = {name: getattr(options, name) for name in FULL}
    smaller = [
        f"{name.replace('_', ' ')} {_number(used[name])} of {_number(value)}"
        for name, value in FULL.items()
        if used[name] < value and not (name.startswith("layer") and "layer" not in options.tables)
    ]
    skipped = "; ".join(cases) if cases else "no case"
    sentences = [f"skipped for lack of time: {skipped}"]
    if smaller:
        sentences.append(f"Measured with {', '.join(smaller)}: use --full to measure all")
    return ". ".join(sentences)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _places(rows: Sequence[Row]) -> list[str]:
    """Return the cases of a mechanism that were skipped for time: the layers, and the lengths of each sweep."""
    layers = sum(row["skipped"].startswith("time") for row in rows if row["table"] == "layer")
    places = [f"{layers} layer{'s' * (layers > 1)}"] if layers else []
    for causal, passes in dict.fromkeys((row["causal"], row["passes"]) for row in rows if row["table"] == "lengths"):
        sweep = [row for row in rows if (row["table"], row["causal"], row["passes"]) == ("lengths", causal, passes)]
        absent = [row["length"] for row in sweep if row["skipped"].startswith("time")]
        if absent:
            all_above = absent == [row["length"] for row in sweep if row["length"] >= absent[0]]
            lengths = f"from {absent[0]:,}" if all_above else " and ".join(f"{length:,}" for length in absent)
            places.append(f"{'causal ' * causal}{passes} {lengths} tokens")
    return places
