"""The attention benchmark: every mechanism within a layer, and alone over growing lengths."""

import secrets
import shlex
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from forecast.benchmarking.options import ROOT
from forecast.errors import InputError

WIDTH = 120


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If they do not go together; nothing is written then.
    """
    import torch
    from rich.console import Console

    from forecast.benchmarking.facts import facts_of
    from forecast.benchmarking.limits import measure_limits
    from forecast.benchmarking.measure import Measured, Watch, measure
    from forecast.benchmarking.progress import progress
    from forecast.benchmarking.record import Row, rows_of
    from forecast.benchmarking.report import CASES, PICTURE, SUMMARY, TABLES, show, write_report, write_unfinished
    from forecast.benchmarking.request import plan_of

    if options.threads:
        torch.set_num_threads(options.threads)
    plan = plan_of(options)
    facts = facts_of(plan.device, options.dtype, arguments)
    folder = _open_folder(options.output)
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
    if not options.quiet:
        show(Console(width=max(Console().width, WIDTH)), sheets)
    written = [name for name in (CASES, SUMMARY, TABLES, PICTURE) if (folder / name).is_file()]
    print(f"{shlex.quote(str(folder))}: {', '.join(written)}")


def _open_folder(wanted: Path | None) -> Path:
    """Return the folder for the files, made if need be; what it holds stays until it is replaced."""
    folder = wanted or ROOT / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is no folder: choose another --output") from None
    return folder
