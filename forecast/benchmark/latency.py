"""The latency benchmark: time of a forecast with a model eager, compiled, exported and in `predict`."""

import shlex
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from forecast.benchmark.machine import choose_device, facts_of
from forecast.benchmark.options import open_folder
from forecast.benchmark.report import heading_of
from forecast.common.errors import InputError, first_line
from forecast.common.files import replacing
from forecast.common.progress import progress
from forecast.common.tables import Row, Table, show, to_csv
from forecast.common.text import NONE, three_digits
from forecast.common.timing import interleave, seconds_of
from forecast.export.formats import WRITERS, Captured, capture, words_of
from forecast.export.formats import facts_of as exported_facts_of
from forecast.export.parity import difference_of, series_of, windows_of
from forecast.model.compiling import compiled
from forecast.model.original_units import Context, OriginalUnits, stack
from forecast.predict.contexts import Model
from forecast.predict.exported import WRITING, open_bytes, require
from forecast.predict.facts import encoded
from forecast.predict.forecaster import Forecaster
from forecast.runs.run import CALIBRATION, Architecture, Run
from forecast.tables.series import Series

CASES, TABLE = "latency.csv", "latency.md"

MOST_REPETITIONS = 2000
"""Maximum repetitions of a case."""

WIDTH = 110

TIMES = ("repetitions", "p50_ms", "p95_ms", "shortest_ms", "windows_per_s")
"""Columns that are empty for a skipped form."""


def run(options: Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print; raise `InputError` if the run or its input cannot be used."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    trained = Run.open_and_say(options.run)
    forecaster = Forecaster.load(trained.path)
    series, source = series_of(trained, forecaster, options.input)
    windows = windows_of(series, forecaster, options.batch)
    if len(windows.past) < options.batch:
        raise InputError(f"--batch {options.batch}: {source} has only {len(windows.past)} windows: lower --batch")
    folder = open_folder(options.output)
    subject = Subject(forecaster, trained.manifest(), series, device)
    subject.model.to(device)
    facts = {"run": str(trained.path), "rows_of": source, **facts_of(device, "fp32", arguments)}
    batches = sorted({1, options.batch})
    rows: list[Row] = []
    with progress(len(batches) * len(options.forms), quiet=options.quiet) as (say, advance):
        for batch in batches:
            chosen = windows.rows(slice(-batch, None)).to(device)
            ready = {}
            for name in options.forms:
                say(f"{name}, batch {batch}")
                ready[name] = make_ready(name, subject, chosen)
            times = interleave(
                {name: partial(seconds_of, form.run, device) for name, form in ready.items() if form.run is not None},
                least=options.repetitions,
                most=max(options.repetitions, MOST_REPETITIONS),
                seconds=options.seconds,
            )
            with torch.inference_mode():
                reference = subject.model(*chosen)
            rows += rows_of(ready, times, batch, reference, forecaster.target_scale.to(device), facts)
            advance(len(options.forms))
    table = write_report(folder, rows, subject.architecture, facts)
    if not options.quiet:
        show(Console(width=max(Console().width, WIDTH)), [table])
    print(f"{shlex.quote(str(folder))}: {CASES}, {TABLE}")


@dataclass(frozen=True)
class Form:
    """A form of the model: its `run` function, preparation time and first forecast, or the reason in `skipped`.

    `reference` is the eager forecast of its window if that is not one of the measured windows.
    """

    run: Callable[[], Tensor] | None = None
    ready_seconds: float | None = None
    forecast: Tensor | None = None
    reference: Tensor | None = None
    skipped: str = ""


@dataclass(frozen=True)
class Subject:
    """The measured run: its forecaster, manifest and validated table; exported `files` are cached."""

    forecaster: Forecaster
    manifest: dict[str, Any]
    series: Series
    device: torch.device
    files: dict[str, tuple[Captured, bytes]] = field(default_factory=dict)

    @property
    def architecture(self) -> Architecture:
        """The architecture of the network."""
        return Architecture.from_dict(self.manifest["architecture"])

    @property
    def model(self) -> OriginalUnits:
        """The model as trained."""
        assert isinstance(self.forecaster.model, OriginalUnits)
        return self.forecaster.model

    def at_the_end(self) -> Tensor:
        """Return the eager forecast of the steps after the table."""
        window, _ = self.forecaster.context(self.series)
        with torch.inference_mode():
            forecast: Tensor = self.model(*stack([window]).to(self.device))
        return forecast

    def exported(self, path: Path) -> tuple[Captured, bytes]:
        """Return the captured model and the content of its export to `path`."""
        if path.suffix not in self.files:
            captured = capture(self.model, self.architecture, masked=self.forecaster.policies.masks_past)
            assert self.forecaster.path is not None
            calibration = encoded((self.forecaster.path / CALIBRATION).read_bytes())
            content = WRITERS[path.suffix](captured, exported_facts_of(self.manifest, captured.batch), calibration)
            self.files[path.suffix] = captured, content
        return self.files[path.suffix]


def make_ready(name: str, subject: Subject, windows: Context) -> Form:
    """Return the form `name` after its first forecast from `windows`."""
    try:
        make = _maker(name, subject, len(windows.past))
        started = perf_counter()
        model = make()

        def run() -> Tensor:
            with torch.inference_mode():
                return model(*windows)

        forecast = run()
        if subject.device.type == "cuda":
            torch.cuda.synchronize(subject.device)
        ready = perf_counter() - started
        return Form(run, ready, forecast, subject.at_the_end() if name == "predict" else None)
    except InputError as refused:
        return Form(skipped=str(refused))
    except RuntimeError as error:  # from the compiler, for example if it is missing
        return Form(skipped=first_line(error))


def _maker(name: str, subject: Subject, batch: int) -> Callable[[], Model]:
    """Return a function that makes the form's model, which is timed; the export before it is not timed."""
    if name == "eager":
        return lambda: subject.model
    if name == "compiled":
        model = compiled(subject.model)  # it compiles in the timed first pass
        return lambda: model
    if subject.device.type != "cpu":
        raise InputError("measured only with --device cpu")
    if name == "predict":
        return _from_table(subject, batch)
    path = Path(f"model.{name}")
    require(path, WRITING)
    captured, content = subject.exported(path)
    if captured.batch not in (None, batch):
        raise InputError("can be exported only for one window at a time")
    return lambda: open_bytes(content, path)


def _from_table(subject: Subject, batch: int) -> Callable[[], Model]:
    if batch > 1:
        raise InputError("forecasts only one table at a time")
    return lambda: lambda *_: torch.tensor(subject.forecaster.predict(subject.series).to_numpy())[None]


def rows_of(
    ready: Mapping[str, Form],
    measured: Mapping[str, Sequence[float]],
    batch: int,
    reference: Tensor,
    scale: Tensor,
    facts: Mapping[str, Any],
) -> list[Row]:
    """Return one row per form for `batch` windows, with times if the form is in `measured` (in seconds).

    Differences from `reference`, the eager model's forecast, are in units of `scale` (C_out,). Rows end with `facts`.
    """
    rows: list[Row] = []
    for name, form in ready.items():
        times: Row = dict.fromkeys(TIMES)
        if seconds := measured.get(name):
            p50, p95 = map(float, np.percentile(seconds, [50, 95]))
            values = (len(seconds), 1e3 * p50, 1e3 * p95, 1e3 * min(seconds), batch / p50)
            times = dict(zip(TIMES, values, strict=True))
        expected = reference if form.reference is None else form.reference
        difference = None if form.forecast is None else float(difference_of(form.forecast, expected, scale))
        ends = {"ready_seconds": form.ready_seconds, "difference": difference, "skipped": form.skipped, **facts}
        rows.append({"form": name, "batch": batch, **times, **ends})
    return rows


def write_report(folder: Path, rows: Sequence[Row], architecture: Architecture, facts: Mapping[str, Any]) -> Table:
    """Write the rows and the table; return the table."""
    table = table_of(rows, architecture)
    text = f"{heading_of('Latency of a forecast', facts)}\n{table.to_markdown()}"
    for name, content in ((CASES, to_csv(rows)), (TABLE, text.encode())):
        with replacing(folder / name) as file:
            file.write(content)
    return table


def table_of(rows: Sequence[Row], architecture: Architecture) -> Table:
    """Return the table of all forms."""
    sizes = architecture.sizes
    channels = sizes.num_targets + sizes.num_past_covariates
    title = f"{sizes.context_length} steps of {channels} channels to {sizes.horizon} of {sizes.num_targets}"
    notes = [
        words_of(architecture),
        "from a validated tensor of the last rows to original units; predict: from a validated table with dates",
        "first s: time to the first forecast, with compilation or loading of the exported file; max. difference: from "
        "eager, in standard deviations of the training split",
    ]
    notes += [f"{row['form']}, batch {row['batch']}: {row['skipped']}" for row in rows if row["skipped"]]
    headings = ("form", "windows", "p50 ms", "p95 ms", "windows/s", "first s", "max. difference")
    return Table(title, headings, [_cells(row) for row in rows], tuple(notes))


def _cells(row: Row) -> list[str]:
    times = [three_digits(row[key]) for key in ("p50_ms", "p95_ms", "windows_per_s", "ready_seconds")]
    return [row["form"], str(row["batch"]), *times, NONE if row["difference"] is None else f"{row['difference']:.1g}"]
