"""Forms of a model whose latency is measured: eager, compiled, exported; and their report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forecast.common.errors import InputError, first_line
from forecast.common.files import replacing
from forecast.common.tables import Row, Sheet, markdown, to_csv
from forecast.common.text import NONE, three_digits
from forecast.data.series import Series
from forecast.export.capture import Captured, capture, words_of
from forecast.export.formats import WRITERS, facts_of
from forecast.model.compiling import compiled
from forecast.model.original_units import Context, OriginalUnits
from forecast.predict.exported import WRITING, open_bytes, require
from forecast.predict.forecaster import Forecaster, Model
from forecast.runs.run import Architecture


@dataclass(frozen=True)
class Form:
    """A form that is ready, after how many seconds, and what it gave first; or `run` None and why it is left out."""

    run: Callable[[], Tensor] | None = None
    ready_seconds: float | None = None
    forecast: Tensor | None = None
    skipped: str = ""


@dataclass(frozen=True)
class Subject:
    """What is measured: a run's forecaster and manifest, and a checked table; files of it are made once."""

    forecaster: Forecaster
    manifest: dict[str, Any]
    series: Series
    device: torch.device
    files: dict[str, tuple[Captured, bytes]] = field(default_factory=dict)

    @property
    def architecture(self) -> Architecture:
        """What the network was built from."""
        return Architecture.from_dict(self.manifest["architecture"])

    @property
    def model(self) -> OriginalUnits:
        """The model as trained."""
        assert isinstance(self.forecaster.model, OriginalUnits)
        return self.forecaster.model

    def exported(self, path: Path) -> tuple[Captured, bytes]:
        """Return what would be the file at `path`."""
        if path.suffix not in self.files:
            captured = capture(self.model, self.architecture, masked=self.forecaster.policies.masks_past)
            content = WRITERS[path.suffix](captured, facts_of(self.manifest, captured.batch))
            self.files[path.suffix] = captured, content
        return self.files[path.suffix]


def make_ready(name: str, subject: Subject, windows: Context) -> Form:
    """Return the form called `name`, ready to forecast from `windows`, after its first pass."""
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
        return Form(run, perf_counter() - started, forecast)
    except InputError as refused:
        return Form(skipped=str(refused))
    except RuntimeError as error:  # of the compiler, such as that there is none
        return Form(skipped=first_line(error))


def _maker(name: str, subject: Subject, batch: int) -> Callable[[], Model]:
    """Return what makes the form's model, which is timed; exporting comes before, and is not."""
    if name == "eager":
        return lambda: subject.model
    if name == "compiled":
        model = compiled(subject.model)  # at its first pass, which is timed
        return lambda: model
    if subject.device.type != "cpu":
        raise InputError("measured with --device cpu alone")
    if name == "predict":
        return _from_table(subject, batch)
    path = Path(f"model.{name}")
    require(path, WRITING)
    captured, content = subject.exported(path)
    if captured.batch not in (None, batch):
        raise InputError("can be exported for one window at a time alone")
    return lambda: open_bytes(content, path)


def _from_table(subject: Subject, batch: int) -> Callable[[], Model]:
    if batch > 1:
        raise InputError("forecasts from one table at a time")
    return lambda: lambda *_: torch.tensor(subject.forecaster.predict(subject.series).to_numpy())[None]


CASES, TABLE = "latency.csv", "latency.md"


def rows_of(
    ready: Mapping[str, Form],
    taken: Mapping[str, Sequence[float]],
    batch: int,
    reference: Tensor,
    scale: Tensor,
    facts: Mapping[str, Any],
) -> list[Row]:
    """Return the rows of `batch` windows.

    Parameters
    ----------
    ready, taken
        Each form by name, and its measured seconds where it was measured.
    reference
        What the model as trained forecasts of the same windows.
    scale
        Shape (C_out,): differences are told in this unit.
    facts
        What every row ends with.
    """
    rows: list[Row] = []
    for name, form in ready.items():
        middle, late = np.percentile(taken[name], [50, 95]) if name in taken else (None, None)
        far = None if form.forecast is None else float(((form.forecast - reference).abs() / scale).max())
        rows.append(
            {
                "form": name,
                "batch": batch,
                "repetitions": len(taken.get(name, ())) or None,
                "p50_ms": None if middle is None else 1e3 * float(middle),
                "p95_ms": None if late is None else 1e3 * float(late),
                "shortest_ms": 1e3 * min(taken[name]) if name in taken else None,
                "windows_per_s": None if middle is None else batch / float(middle),
                "ready_seconds": form.ready_seconds,
                "difference": far,
                "skipped": form.skipped,
                **facts,
            }
        )
    return rows


def write_report(folder: Path, rows: Sequence[Row], architecture: Architecture, facts: Mapping[str, Any]) -> Sheet:
    """Write the rows and the table; give the table."""
    sheet = sheet_of(rows, architecture)
    heading = (
        "# Latency of a forecast\n\n"
        f"{facts['machine']}, torch {facts['torch']}, {facts['dtype']}, {facts['date']}, commit {facts['commit']}.\n"
        f"`{facts['command']}`\n"
    )
    for name, content in ((CASES, to_csv(rows)), (TABLE, f"{heading}\n{markdown(sheet)}".encode())):
        with replacing(folder / name) as file:
            file.write(content)
    return sheet


def sheet_of(rows: Sequence[Row], architecture: Architecture) -> Sheet:
    """Return the table of all forms."""
    sizes = architecture.sizes
    channels = sizes.num_targets + sizes.num_past_covariates
    title = f"{sizes.context_length} steps of {channels} channels to {sizes.horizon} of {sizes.num_targets}"
    notes = [
        words_of(architecture),
        "from a checked tensor of the last rows to original units; predict: from a checked table, dates included",
        "ready: until the first forecast was there, compiling or exporting included; differs: from eager, at most, "
        "in training deviations; an exported one is ready from its file",
    ]
    notes += [f"{row['form']}, {row['batch']} at a time: {row['skipped']}" for row in rows if row["skipped"]]
    headings = ("form", "windows", "p50 ms", "p95 ms", "windows/s", "ready s", "differs")
    return Sheet(title, headings, [_cells(row) for row in rows], tuple(notes))


def _cells(row: Row) -> list[str]:
    times = [three_digits(row[key]) for key in ("p50_ms", "p95_ms", "windows_per_s", "ready_seconds")]
    return [row["form"], str(row["batch"]), *times, NONE if row["difference"] is None else f"{row['difference']:.1g}"]
