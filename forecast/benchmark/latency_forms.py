"""The forms in which a run's model can be asked for a forecast, each made ready for one number of windows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from forecast.common.errors import InputError, first_line
from forecast.data.series import Series
from forecast.export.capture import Captured, capture
from forecast.export.written import WRITERS, facts_of
from forecast.model.compiling import compiled
from forecast.model.context import Context
from forecast.model.original_units import OriginalUnits
from forecast.predict.extra import WRITING, require
from forecast.predict.forecaster import Forecaster, Model
from forecast.predict.opened import open_bytes
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
        """Give what would be the file at `path`."""
        if path.suffix not in self.files:
            captured = capture(self.model, self.architecture, masked=self.forecaster.policies.masks_past)
            content = WRITERS[path.suffix](captured, facts_of(self.manifest, captured.batch))
            self.files[path.suffix] = captured, content
        return self.files[path.suffix]


def make_ready(name: str, subject: Subject, windows: Context) -> Form:
    """Give the form called `name`, ready to forecast from `windows`, after its first pass."""
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
    """Give what makes the form's model, which is timed; exporting comes before, and is not."""
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
