"""The attention benchmark: every mechanism within a layer, and alone over growing lengths."""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forecast.benchmark.options import open_folder
from forecast.common.timing import clock

if TYPE_CHECKING:
    from forecast.benchmark.request import Plan
    from forecast.common.tables import Row


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If they do not go together; nothing is written then.
    """
    import torch

    from forecast.benchmark.machine import facts_of, measure_limits
    from forecast.benchmark.measure import Measured, Watch, measure
    from forecast.benchmark.report import rows_of, tell, write_report, write_unfinished
    from forecast.benchmark.request import plan_of
    from forecast.common.progress import progress
    from forecast.common.tables import Row

    if options.threads:
        torch.set_num_threads(options.threads)
    plan = plan_of(options)
    facts = facts_of(plan.device, options.dtype, arguments)
    folder = open_folder(options.output)
    rows: list[Row] = []
    with progress(plan.num_cases(), quiet=options.quiet, opening=_opening(plan)) as (say, advance):
        say("the machine's limits")
        limits = measure_limits(plan.device, plan.dtype)

        def add(group: list[Measured]) -> None:
            rows.extend(rows_of(group, limits, plan.dtype, facts))
            write_unfinished(folder, rows)
            advance(len(group))

        measure(plan, Watch(say, add))
    tables = write_report(folder, rows, plan.variants, plan.fit_from, facts)
    tell(folder, tables, quiet=options.quiet, note="" if options.full else _left_out(options, rows))


def _opening(plan: "Plan") -> str:
    """Return how long the run takes, and what it measures."""
    what = f"{len(plan.variants)} mechanisms, {plan.num_cases()} cases"
    if plan.budget is None:
        return f"{what}, the whole: most of an hour on two cores with the defaults"
    return f"{what}, within about {clock(plan.budget)} (--minutes); what does not fit is left out and listed"


def _left_out(options: Namespace, rows: "Sequence[Row]") -> str:
    """Return which cases had no time, and what --full would measure beside them."""
    from forecast.benchmark.options import FULL

    late = [row for row in rows if row["skipped"].startswith("time")]
    cases = [
        f"{label} ({', '.join(_places([row for row in rows if row['mechanism'] == label]))})"
        for label in dict.fromkeys(row["mechanism"] for row in late)
    ]
    smaller = [f"{name.replace('_', ' ')} {getattr(options, name):,g} of {value:,g}" for name, value in FULL.items()]
    said = "; ".join(cases) if cases else "no case"
    return f"left out for want of time: {said}. Measured with {', '.join(smaller)}: --full measures the whole"


def _places(rows: "Sequence[Row]") -> list[str]:
    """Return where a mechanism had no time: the layers, and of each sweep the lengths from which on it had none."""
    layers = sum(row["skipped"].startswith("time") for row in rows if row["table"] == "layer")
    places = [f"{layers} layer{'s' * (layers > 1)}"] if layers else []
    for causal, passes in dict.fromkeys((row["causal"], row["passes"]) for row in rows if row["table"] == "lengths"):
        sweep = [row for row in rows if (row["table"], row["causal"], row["passes"]) == ("lengths", causal, passes)]
        absent = [row["length"] for row in sweep if row["skipped"].startswith("time")]
        if absent:
            whole = absent == [row["length"] for row in sweep if row["length"] >= absent[0]]
            lengths = f"from {absent[0]:,}" if whole else " and ".join(f"{length:,}" for length in absent)
            places.append(f"{'causal ' * causal}{passes} {lengths} tokens")
    return places
