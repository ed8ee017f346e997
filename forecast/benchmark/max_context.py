"""The max-context benchmark: the largest look-back that each mechanism can be trained on in a given memory."""

from argparse import Namespace
from collections.abc import Sequence

from forecast.benchmark.options import open_folder


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If they do not go together; nothing is written then.
    """
    import torch

    from forecast.attention._parsing import Variant, named
    from forecast.benchmark.machine import facts_of
    from forecast.benchmark.measure import memory_bytes
    from forecast.benchmark.models import Task, build_ours, parse_preset
    from forecast.benchmark.report import CASES, SUMMARY, heading_of, tell, write_record, write_unfinished
    from forecast.benchmark.request import check_order, choose_device
    from forecast.benchmark.trial import (
        Ask,
        Trial,
        Watch,
        attempt_of,
        context_table,
        limit_cuda,
        search,
        summary_row,
        trial_row,
    )
    from forecast.common.progress import progress
    from forecast.common.tables import Row

    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    check_order(options.shortest, options.longest)
    preset, variants = parse_preset(options.model), named(options.mechanisms)
    memory = memory_bytes(options.memory_gib, device)
    task = Task(options.shortest, options.horizon, options.batch, options.channels)
    build_ours(preset, variants[0], task)
    settings = {
        "model": options.model, "batch": task.batch, "channels": task.channels, "horizon": task.horizon,
        "memory_gib": memory / 2**30,
    }  # fmt: skip
    facts = settings | facts_of(device, options.dtype, arguments)
    folder = open_folder(options.output)
    if device.type == "cuda":
        limit_cuda(memory, device)
    rows: list[Row] = []
    summaries: list[Row] = []

    def add(variant: Variant, trial: Trial) -> None:
        rows.append(trial_row(variant, trial, facts))
        write_unfinished(folder, rows)

    with progress(len(variants), quiet=options.quiet) as (say, advance):
        for variant in variants:
            ask = Ask(preset, variant, task, options.dtype, str(device), memory)
            trials = search(
                attempt_of(ask, options.limit, Watch(say, add)),
                shortest=options.shortest,
                longest=options.longest,
                within=options.within,
            )
            summaries.append(summary_row(variant, trials, facts))
            advance(1)
    table = context_table(summaries, within=options.within, on_gpu=device.type == "cuda")
    head = heading_of("The largest look-back of each mechanism", facts)
    write_record(folder, head, [table], {CASES: rows, SUMMARY: summaries})
    tell(folder, [table], quiet=options.quiet)
