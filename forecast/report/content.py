"""The content of a report, independent of the output format."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecast.common.tables import Table
from forecast.report.answer import answer
from forecast.report.budget import DIFFERS, budget_table
from forecast.report.comparisons import Comparisons, compare_all
from forecast.report.diagnosis.answer import sentences
from forecast.report.diagnosis.correlations import correlation_table
from forecast.report.diagnosis.doubts import doubts
from forecast.report.diagnosis.pictures import draw_diagnosis
from forecast.report.diagnosis.tables import diagnosis_commands, diagnosis_table
from forecast.report.diagnosis.tasks import Diagnosis, diagnose, is_diagnostic
from forecast.report.groups import RunGroup, groups_of
from forecast.report.pictures import draw_pictures
from forecast.report.reference_pairs import reasons_table
from forecast.report.tables import (
    command_table,
    comparison_table,
    crossing_table,
    equal_table,
    front_table,
    interval_table,
    left_out_table,
    range_table,
    result_table,
    turns_table,
)
from forecast.runs.read import FinishedRun, Found

MOST_LEFT_OUT = 3
"""Maximum number of folders that the details name; the last table has all."""


@dataclass(frozen=True)
class Picture:
    """A picture: file name, caption, PNG."""

    file: str
    shows: str
    png: bytes


@dataclass(frozen=True)
class Chapter:
    """A chapter: the answer with a picture beside it, then details, tables and pictures in order."""

    title: str
    answer: list[str]
    details: list[str]
    picture: Picture | None
    parts: Sequence[Table | Sequence[Picture]]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures of the chapter."""
        first = [] if self.picture is None else [self.picture]
        return first + [picture for part in self.parts if not isinstance(part, Table) for picture in part]


@dataclass(frozen=True)
class GroupChapter(Chapter):
    """The chapter on settings that forecast the same data."""

    group: RunGroup
    comparisons: Comparisons


@dataclass(frozen=True)
class DiagnosisChapter(Chapter):
    """The chapter on diagnostic series."""

    diagnosis: Diagnosis


@dataclass(frozen=True)
class Content:
    """A report: its chapters, and the folders left out."""

    title: str
    chapters: Sequence[Chapter]
    left_out: Table | None


def make_content(title: str, found: Found) -> Content:
    """Return the content of the report on the runs."""
    diagnostic = [run for run in found.runs if is_diagnostic(run)]
    groups = groups_of([run for run in found.runs if not is_diagnostic(run)])
    chapters: list[Chapter] = [_diagnosis(diagnostic, found.left_out)] if diagnostic else []
    for place, group in enumerate(groups, 1):
        prefix = f"{place}-" if len(groups) > 1 else ""
        chapters.append(_chapter(group, prefix, () if chapters else found.left_out))
    return Content(title, chapters, left_out_table(found.left_out))


def _diagnosis(runs: Sequence[FinishedRun], left_out: Sequence[tuple[str, str]]) -> DiagnosisChapter:
    diagnosis = diagnose(runs)
    first, *others = [Picture(f"report-{name}.png", shows, png) for name, shows, png in draw_diagnosis(diagnosis)]
    details = [*doubts(diagnosis), *([_left_out(left_out)] if left_out else [])]
    parts: list[Table | Sequence[Picture]] = [others] if others else []
    parts.append(diagnosis_table(diagnosis))
    if (explained := correlation_table(diagnosis)) is not None:
        parts.append(explained)
    parts.append(diagnosis_commands(diagnosis))
    return DiagnosisChapter("Diagnostic series", sentences(diagnosis), details, first, parts, diagnosis)


def _left_out(left_out: Sequence[tuple[str, str]]) -> str:
    """Return the sentence on folders that could not be compared."""
    names = [f"{name} ({why})" for name, why in left_out[:MOST_LEFT_OUT]]
    more = len(left_out) - len(names)
    return f"Not in the report: {'; '.join(names)}{f'; and {more} more' if more else ''}."


def _chapter(group: RunGroup, prefix: str, left_out: Sequence[tuple[str, str]]) -> GroupChapter:
    comparisons = compare_all(group)
    equal = equal_table(group)
    pictures = [Picture(f"report-{prefix}{name}.png", shows, png) for name, shows, png in draw_pictures(group)]
    trade_offs = [picture for picture in pictures if "look-back" not in picture.file]
    parts: list[Table | Sequence[Picture] | None] = [
        result_table(group),
        interval_table(group),
        trade_offs[1:] or None,
        front_table(group),
        [picture for picture in pictures if "look-back" in picture.file] or None,
        range_table(group),
        reasons_table(comparisons),
        crossing_table(group),
        turns_table(group),
        comparison_table(comparisons),
        budget_table(group),
        equal,
        command_table(group),
    ]
    answers, details = answer(group, comparisons, len(left_out))
    if differing := [name for name, state, _ in equal.cells if state == DIFFERS]:
        details.append(f"These differ between settings: {', '.join(differing)} (see the table Held equal).")
    if left_out:
        details.append(_left_out(left_out))
    picture = trade_offs[0] if trade_offs else None
    shown = [part for part in parts if part is not None]
    return GroupChapter(group.title, answers, details, picture, shown, group, comparisons)
