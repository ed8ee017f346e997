"""What runs' weights score under other mechanisms and look-backs than they were trained with, where that was tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecast.common.files import read_json
from forecast.common.tables import Sheet
from forecast.report.sections import Section
from forecast.report.settings import Setting
from forecast.report.text import score, shown, signed
from forecast.runs.reading import FinishedRun
from forecast.runs.run import TRANSPLANT

TITLE = "Transplanted"


@dataclass(frozen=True)
class Line:
    """One line of a run's `transplant.json` beside its first, which is the run as it was trained."""

    attention: str
    look_back: int
    mse: float
    mae: float
    more: float
    times: float

    @property
    def key(self) -> tuple[int, str]:
        """What it ran at and under."""
        return self.look_back, self.attention


def transplant_sheet(section: Section) -> Sheet | None:
    """Give the table of transplants, means over the seeds that have them; None where no run of the section has any."""
    cells, damaged = [], []
    for setting in section.settings:
        by_key: dict[tuple[int, str], list[Line]] = {}
        for run in setting.runs:
            lines = lines_of(run)
            damaged += [run.name] * (lines is None)
            for key, line in {line.key: line for line in lines or []}.items():
                by_key.setdefault(key, []).append(line)
        cells += [_cells(setting, lines) for _, lines in sorted(by_key.items())]
    headings = (
        *("trained with", "at look-back", "run with", "at look-back", "seeds", "test MSE", "test MAE"),
        *("MSE, % more", "times its time"),
    )
    notes = (
        "the weights of a run under another mechanism or look-back, nothing trained anew (`python -m forecast.predict."
        "transplant`); % more, times: against the same weights as they were trained, scored beside them",
        *(f"{name}: its {TRANSPLANT} is not readable, and left out" for name in damaged),
    )
    return Sheet(TITLE, headings, cells, notes) if cells or damaged else None


def lines_of(run: FinishedRun) -> list[Line] | None:
    """Give the transplants of a run, none where none was tried; None where their file cannot be read."""
    try:
        content = read_json(run.folder / TRANSPLANT)
        if content is None:
            return []
        trained, *others = content["scored"] if isinstance(content, dict) else content  # a list in earlier versions
        return [_line(other, trained) for other in others]
    except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
        return None


def _line(found: Mapping[str, Any], trained: Mapping[str, Any]) -> Line:
    return Line(
        attention=str(found["attention"]),
        look_back=int(found["context_length"]),
        mse=_number(found["test"]["mse"]),
        mae=_number(found["test"]["mae"]),
        more=100 * (_number(found["test"]["mse"]) / _number(trained["test"]["mse"]) - 1),
        times=_number(found["seconds_per_window"]) / _number(trained["seconds_per_window"]),
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _cells(setting: Setting, lines: Sequence[Line]) -> list[str]:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return [
        setting.arm,
        f"{setting.look_back:,}",
        lines[0].attention,
        f"{lines[0].look_back:,}",
        f"{len(lines)}",
        score(mean([line.mse for line in lines])),
        score(mean([line.mae for line in lines])),
        signed(mean([line.more for line in lines])),
        shown(mean([line.times for line in lines])),
    ]
