"""The result of a run as text, and as HTML with a picture for a notebook."""

from base64 import b64encode
from collections.abc import Mapping
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from forecast.runs.summary import HEADINGS, best_line, notes, result_table, table_rows, title

WIDTH = 100
"""Width of a table as text."""


def text_of(result: Mapping[str, Any]) -> str:
    """Return the table of scores, and the line on the best step or on the seeds of an ensemble."""
    console = Console(file=StringIO(), width=WIDTH, force_jupyter=False)
    console.print(result_table(result))
    assert isinstance(console.file, StringIO)
    table = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    return "\n".join([table, *_lines(result)])


def html_of(result: Mapping[str, Any], picture: Path) -> str:
    """Return the table of scores as HTML, with the picture of the last forecast if there is one."""
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table_rows(result))
    head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    below = "<br>".join(map(escape, [*notes(result), *_lines(result)]))
    image = ""
    if picture.is_file():
        data = b64encode(picture.read_bytes()).decode()
        image = f'<img alt="forecast of the last window" style="max-width: 100%" src="data:image/png;base64,{data}">'
    return (
        f"<p><b>{escape(title(result))}</b></p><table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"
        f"<p>{below}</p>{image}"
    )


def _lines(result: Mapping[str, Any]) -> list[str]:
    """Return what gave the weights: the best step or the seeds, and how a time budget was spent."""
    seeds = result.get("seeds")
    first = best_line(result) if seeds is None else f"Mean of {len(seeds)} seeds: {', '.join(map(str, seeds))}."
    spent = result.get("time_budget")
    return [first, *([] if spent is None else [f"Time budget: {spent['summary']}."])]
