"""The latency benchmark: from a checked tensor of the last rows to a forecast in original units."""

import shlex
from argparse import Namespace
from collections.abc import Sequence
from functools import partial

from forecast.benchmark.options import open_folder
from forecast.common.errors import InputError

MOST_REPETITIONS = 2000
"""Of a case, however short its passes."""

WIDTH = 110


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print as the options say.

    Raises
    ------
    InputError
        If the run or its input cannot be used; nothing is written then.
    """
    import torch
    from rich.console import Console

    from forecast.benchmark.forms import CASES, TABLE, Subject, make_ready, rows_of, write_report
    from forecast.benchmark.machine import facts_of
    from forecast.benchmark.request import choose_device
    from forecast.common.progress import progress
    from forecast.common.tables import Row, show
    from forecast.common.timing import interleave, seconds_of
    from forecast.export.parity import series_of, windows_of
    from forecast.predict.forecaster import Forecaster
    from forecast.runs.run import Run

    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    trained = Run.open_and_say(options.run)
    forecaster = Forecaster.load(trained.path)
    series, said = series_of(trained, forecaster, options.input)
    windows = windows_of(series, forecaster, options.batch)
    if len(windows.past) < options.batch:
        raise InputError(f"--batch {options.batch}: {said} hold {len(windows.past)} windows: lower --batch")
    folder = open_folder(options.output)
    subject = Subject(forecaster, trained.manifest(), series, device)
    subject.model.to(device)
    facts = {"run": str(trained.path), "rows_of": said, **facts_of(device, "fp32", arguments)}
    batches = sorted({1, options.batch})
    rows: list[Row] = []
    with progress(len(batches) * len(options.forms), quiet=options.quiet) as (say, advance):
        for batch in batches:
            chosen = windows.rows(slice(-batch, None)).to(device)
            ready = {}
            for name in options.forms:
                say(f"{name}, {batch} at a time")
                ready[name] = make_ready(name, subject, chosen)
            taken = interleave(
                {name: partial(seconds_of, form.run, device) for name, form in ready.items() if form.run is not None},
                least=options.repetitions,
                most=max(options.repetitions, MOST_REPETITIONS),
                seconds=options.seconds,
            )
            with torch.inference_mode():
                reference = subject.model(*chosen)
            rows += rows_of(ready, taken, batch, reference, forecaster.target_scale.to(device), facts)
            advance(len(options.forms))
    table = write_report(folder, rows, subject.architecture, facts)
    if not options.quiet:
        show(Console(width=max(Console().width, WIDTH)), [table])
    print(f"{shlex.quote(str(folder))}: {CASES}, {TABLE}")
