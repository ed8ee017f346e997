"""Show what is understood of a table, before a training: `forecast data my.csv`."""

import argparse
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish

if TYPE_CHECKING:
    from forecast.overview.understanding import Understanding

PICTURE = ".data.png"
"""Ending of the picture, in the place of that of the table."""

_ENDS = 3
"""Rows at the start, and at the end, that are printed."""

_WIDTH = 110


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the command line asks; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="forecast data",
        description="Show what is understood of a table: its layout, times, columns, gaps and season, its first and "
        "last rows, a picture, and the exact words to train with.",
    )
    parser.add_argument("table", type=Path, help="a file that a training can read")
    parser.add_argument("options", nargs="*", metavar="option", help="options of the table, such as data.decimal=','")
    parser.add_argument("--write", type=Path, metavar="file", help="write the table as understood, such as tidy.xlsx")
    parser.add_argument("--picture", type=Path, metavar="file", help=f"the picture; default: the table's name{PICTURE}")
    options = parser.parse_intermixed_args(arguments)
    return finish(lambda: overview(options.table, options.options, options.write, options.picture))


def overview(table: Path, words: Sequence[str] = (), write: Path | None = None, picture: Path | None = None) -> None:
    """Print what is understood of a table, and draw it; also write the table as understood."""
    from forecast.common.files import check_place
    from forecast.overview.picture import draw_columns
    from forecast.overview.understanding import table_of, understand
    from forecast.tables.writing import check_output, write_table

    image = picture or Path(f"{table.name.split('.')[0] or 'table'}{PICTURE}")
    check_place(image, *(() if write is None else (write,)))
    if write is not None:
        check_output(write)
    seen = understand(table, words)
    frame = table_of(seen.series)
    print(*_lines(table, seen), sep="\n")
    shown = frame.iloc[[*range(min(_ENDS, len(frame))), *range(max(_ENDS, len(frame) - _ENDS), len(frame))]]
    print(shown.to_string(max_cols=8, line_width=_WIDTH))
    draw_columns(image, seen.series, str(table.name))
    print(f"picture: {shlex.quote(str(image))}")
    if write is not None:
        write_table(write, frame.reset_index(), index=False)
        print(f"table as understood: {shlex.quote(str(write))}")
    print(f"train with: {_command(table, words, seen)}")


def _lines(table: Path, seen: "Understanding") -> list[str]:
    """Return what is understood, line by line."""
    from forecast.common.text import counted
    from forecast.overview.understanding import columns_of, season_of
    from forecast.tables.times.frequency import step_words

    series = seen.series
    times = series.frame.index
    many = "" if series.ids is None else f"{len(series.ids):,} series, "
    step = step_words(series.frequency)
    lines = [f"{table}: {many}{series.num_rows:,} rows, one every {step}, {times.min()} to {times.max()}"]
    lines += [f"  {note}" for note in series.notes]
    for problem in seen.problems:
        lines.append(f"  accepted by the words below: {_shortened(problem, table)}")
    facts = columns_of(series)
    width = max([6, *(len(fact.name) for fact in facts)])
    lines.append(f"  {'column':<{width}}  {'least':>10} {'mean':>10} {'largest':>10} {'empty':>7}")
    for fact in facts:
        numbers = " ".join(f"{_number(value):>10}" for value in (fact.least, fact.mean, fact.largest))
        lines.append(f"  {fact.name:<{width}}  {numbers} {fact.empty:>7,}  {', '.join(fact.remarks)}".rstrip())
    for name, labels in series.labels.items():
        lines.append(f"  {name:<{width}}  {counted(len(labels), 'label')}: {', '.join(map(repr, labels[:5]))}")
    if (more := series.frame.shape[1] - len(facts) - len(series.labels)) > 0:
        lines.append(f"  and {counted(more, 'more column')}")
    if series.unread:
        lines.append(f"  not read: {', '.join(map(repr, series.unread[:9]))}")
    if facts:
        lines.append(f"  season: {season_of(series, [fact.name for fact in facts])}")
    return lines


def _shortened(problem: str, table: Path) -> str:
    """Return a refusal without the name of the table and without its cures."""
    return problem.removeprefix(str(table)).lstrip(",: ").partition(": correct the file")[0].partition(", or train")[0]


def _number(value: float) -> str:
    """Return a number with four digits or more, and no exponent below a million million."""
    size = abs(value)
    if not 1e-4 <= size < 1e12:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(size)))}f}"


def _command(table: Path, words: Sequence[str], seen: "Understanding") -> str:
    """Return the command that trains on the table as it is understood."""
    from forecast.tables.flaws import value_word

    own = [word if word.startswith("data.") else f"data.{word}" for word in words]
    options = ["data=csv", value_word("data.path", str(table)), *own, *seen.words]
    return " ".join(["python train.py", *map(shlex.quote, options)])
