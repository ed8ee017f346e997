"""A finished run or ensemble in Python: its result and settings, as text, and as HTML with a picture for a notebook."""

import os
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.runs.run import PICTURE, copied_run

WIDTH = 100
"""Width of a table as text."""


class Shown:
    """Base of a model that was loaded from a folder: `path` is that folder, `result` the content of its main file."""

    @property
    def path(self) -> Path | None:
        raise NotImplementedError

    @property
    def result(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def settings(self) -> dict[str, Any]:
        """All options of the training."""
        return dict(self.result["config"])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the run folder to a new `folder`, which `forecast.load` and the commands open; return its path.

        Raises
        ------
        InputError
            If `folder` has files already, or the model was not loaded from one folder.
        """
        if self.path is None or not self.path.is_dir():
            raise InputError(f"{self._short()}: has no run folder of its own: copy the file, or save each member")
        return copied_run(self.path, Path(folder))

    def __repr__(self) -> str:
        return text_of(self.result) if self._has_result else self._short()

    def _repr_html_(self) -> str:
        if not self._has_result:
            return f"<pre>{escape(self._short())}</pre>"
        assert self.path is not None
        return html_of(self.result, self.path / PICTURE)

    @property
    def _has_result(self) -> bool:
        return self.path is not None and self.path.is_dir()

    def _short(self) -> str:
        return f"<{type(self).__name__}{'' if self.path is None else f' of {self.path}'}>"

    def _content(self, name: str) -> dict[str, Any]:
        if self.path is None or not (self.path / name).is_file():
            raise InputError(f"{self.path}: has no {name}: only a run folder has it")
        return dict(read_json(self.path / name))


def text_of(result: Mapping[str, Any]) -> str:
    """Return the table of scores, and the line on the best step or on the seeds of an ensemble."""
    from rich.console import Console  # here, as in the functions below: a forecast needs no tables

    from forecast.runs.summary import result_table

    console = Console(file=StringIO(), width=WIDTH, force_jupyter=False)
    console.print(result_table(result))
    assert isinstance(console.file, StringIO)
    table = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    return "\n".join([table, *_lines(result)])


def html_of(result: Mapping[str, Any], picture: Path) -> str:
    """Return the table of scores as HTML, with the picture of the last forecast if there is one."""
    from forecast.runs.summary import HEADINGS, notes, table_rows, title

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
    from forecast.runs.summary import best_line

    seeds = result.get("seeds")
    first = best_line(result) if seeds is None else f"Mean of {len(seeds)} seeds: {', '.join(map(str, seeds))}."
    spent = result.get("time_budget")
    return [first, *([] if spent is None else [f"Time budget: {spent['summary']}."])]
