"""The step benchmark: how near our training step is to the machine's matrix product, and where its time goes."""

from argparse import Namespace
from collections.abc import Sequence

from forecast.benchmark.machine import open_folder


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If they do not go together; nothing is written then.
    """
    import torch

    from forecast.attention._parsing import parse
    from forecast.benchmark.breakdown import breakdown
    from forecast.benchmark.machine import facts_of
    from forecast.benchmark.models import Task, build_ours, our_peer, parse_preset
    from forecast.benchmark.report import CASES, OPERATIONS, heading_of, tell, write_record, write_unfinished
    from forecast.benchmark.request import choose_device
    from forecast.benchmark.step_measure import measure_step
    from forecast.benchmark.step_sheets import figures_row, limit_sheet, operation_rows, operation_sheets
    from forecast.common.progress import progress
    from forecast.common.tables import Row

    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    preset, attention = parse_preset(options.model), parse(options.attention, "--attention")
    tasks = [Task(past, horizon, options.batch, options.channels) for past, horizon in options.windows]
    networks = [build_ours(preset, attention, task) for task in tasks]
    facts = facts_of(device, " and ".join(options.dtypes), arguments)
    folder = open_folder(options.output)
    rows: list[Row] = []
    operations: list[Row] = []
    with progress(len(tasks) * len(options.dtypes), quiet=options.quiet) as (say, advance):
        for task, network in zip(tasks, networks, strict=True):
            peer = our_peer(network, task.draw(device))
            for precision in options.dtypes:
                say(f"{task.label}, {precision}")
                figures, step = measure_step(network, peer, preset, precision, repetitions=options.repetitions)
                rows.append(figures_row(task, precision, figures) | facts)
                found = breakdown(step, device)
                operations += operation_rows(task, precision, found, figures.step.median)
                write_unfinished(folder, rows)
                advance(1)
    sheets = [limit_sheet(rows), *operation_sheets(operations, options.top)]
    head = heading_of("A training step: the matrix limit, and the rest", facts, f"{options.model}, {attention.label}.")
    write_record(folder, head, sheets, {CASES: rows, OPERATIONS: operations})
    tell(folder, sheets, quiet=options.quiet)
