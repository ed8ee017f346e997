"""The attention benchmark: every mechanism within a layer, and alone over growing lengths."""

from argparse import Namespace
from collections.abc import Sequence

from forecast.benchmarking.folder import open_folder


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If they do not go together; nothing is written then.
    """
    import torch

    from forecast.benchmarking.facts import facts_of
    from forecast.benchmarking.limits import measure_limits
    from forecast.benchmarking.measure import Measured, Watch, measure
    from forecast.benchmarking.progress import progress
    from forecast.benchmarking.record import Row, rows_of
    from forecast.benchmarking.report import tell, write_report, write_unfinished
    from forecast.benchmarking.request import plan_of

    if options.threads:
        torch.set_num_threads(options.threads)
    plan = plan_of(options)
    facts = facts_of(plan.device, options.dtype, arguments)
    folder = open_folder(options.output)
    rows: list[Row] = []
    with progress(plan.num_cases(), quiet=options.quiet) as (say, advance):
        say("the machine's limits")
        limits = measure_limits(plan.device, plan.dtype)

        def add(group: list[Measured]) -> None:
            rows.extend(rows_of(group, limits, plan.dtype, facts))
            write_unfinished(folder, rows)
            advance(len(group))

        measure(plan, Watch(say, add))
    sheets = write_report(folder, rows, plan.variants, plan.fit_from, facts)
    tell(folder, sheets, quiet=options.quiet)
