"""Everything that a report says, independent of the output format."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecast.common.tables import Table
from forecast.report.answer import answer
from forecast.report.budget import DIFFERS
from forecast.report.comparisons import Comparisons, compare_all
from forecast.report.costs import turns_table
from forecast.report.pictures import draw_pictures
from forecast.report.sections import Section, sections_of
from forecast.report.tables import (
    command_table,
    comparison_table,
    crossing_table,
    equal_table,
    front_table,
    left_out_table,
    range_table,
    result_table,
    transplant_table,
)
from forecast.runs.read import Found

MOST_LEFT_OUT = 3
"""Most folders that the answer names; the last table has them all."""


@dataclass(frozen=True)
class Picture:
    """A picture: file name, caption, PNG."""

    file: str
    shows: str
    png: bytes


@dataclass(frozen=True)
class Chapter:
    """The chapter on one section: answer, tables and pictures in order of reading."""

    section: Section
    comparisons: Comparisons
    answer: list[str]
    parts: Sequence[Table | Sequence[Picture]]


@dataclass(frozen=True)
class Content:
    """A report: its chapters, and the folders left out."""

    title: str
    chapters: Sequence[Chapter]
    left_out: Table | None


def make_content(title: str, found: Found) -> Content:
    """Return the content of the report on the runs."""
    sections = sections_of(found.runs)
    chapters = [
        _chapter(section, f"{place}-" if len(sections) > 1 else "") for place, section in enumerate(sections, 1)
    ]
    if found.left_out:
        chapters[0].answer.append(_left_out(found.left_out))
    return Content(title, chapters, left_out_table(found.left_out))


def _left_out(left_out: Sequence[tuple[str, str]]) -> str:
    """Return the sentence on runs that could not be compared: a failure may be the point of a study."""
    names = [f"{name} ({why})" for name, why in left_out[:MOST_LEFT_OUT]]
    more = len(left_out) - len(names)
    return f"Not in the report: {'; '.join(names)}{f'; and {more} more' if more else ''}."


def _chapter(section: Section, prefix: str) -> Chapter:
    comparisons = compare_all(section)
    equal = equal_table(section)
    pictures = [Picture(f"report-{prefix}{name}.png", shows, png) for name, shows, png in draw_pictures(section)]
    across = [each for each in pictures if "look-back" not in each.file]
    parts: list[Table | Sequence[Picture] | None] = [
        result_table(section),
        across or None,
        front_table(section),
        [each for each in pictures if each not in across] or None,
        range_table(section),
        crossing_table(section),
        turns_table(section),
        comparison_table(comparisons),
        transplant_table(section),
        equal,
        command_table(section),
    ]
    differing = [name for name, state, _ in equal.cells if state == DIFFERS]
    said = answer(section, comparisons)
    if differing:
        said.append(f"Not everything was held equal: {', '.join(differing)} (see the table Held equal).")
    return Chapter(section, comparisons, said, [part for part in parts if part is not None])
