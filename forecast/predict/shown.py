"""A finished run or ensemble in Python: its result and settings, as text, and as HTML with a picture for a notebook."""

import os
from html import escape
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import read_json
from forecast.runs.run import PICTURE, copied_run


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
        from forecast.runs.shown import text_of  # here: a forecast needs no tables

        return text_of(self.result) if self._has_result else self._short()

    def _repr_html_(self) -> str:
        if not self._has_result:
            return f"<pre>{escape(self._short())}</pre>"
        assert self.path is not None
        from forecast.runs.shown import html_of  # here: a forecast needs no tables

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
