"""Progress of a sweep's jobs: lines or a live table."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table as TerminalTable

from forecast.common.tables import Table
from forecast.runs.read import figures_of
from forecast.runs.summary import scored_split
from forecast.training.sweep.table import cell, headings_of

SHOWN = ("test_mse", "skill", "train_windows_per_s", "inference_windows_per_s", "peak_memory_mib", "fit_seconds")
"""Figures of a finished job that are shown while others run, keys of `HEADINGS`."""

OF_A_SEARCH = ("validation_mse", "train_windows_per_s", "inference_windows_per_s", "peak_memory_mib", "fit_seconds")
"""The same for a search, which does not show the test split."""


class LineReporter:
    """Prints a line for each event; `shown` are the figures of a finished job, keys of `HEADINGS`."""

    def __init__(self, shown: Sequence[str] = SHOWN) -> None:
        self.shown = shown

    def starts(self, name: str, number: int, *, again: bool) -> None:
        """Print that a job starts or resumes."""
        print(f"job {number}: {name} {'resumes' if again else 'starts'}", flush=True)

    def finished(self, name: str, result: Mapping[str, Any], *, before: bool) -> None:
        """Print the result of a job; for an earlier result the run itself has printed a line."""
        if before:
            return
        headings = headings_of(scored_split(result))
        shown = ", ".join(f"{headings[key]} {text}" for key, text in cells(result, self.shown).items() if text)
        print(f"{name}: finished, {shown}", flush=True)

    def failed(self, name: str, line: str) -> None:
        """Do nothing: the error line has been printed."""

    def left(self, name: str) -> None:
        """Print that a job is not started."""
        print(f"{name}: not started, time limit reached", flush=True)


def cells(result: Mapping[str, Any], shown: Sequence[str]) -> dict[str, str]:
    """Return the text of each figure of `shown`, empty where the result has none."""
    row = {"row": "job", **figures_of(result)}
    return {key: cell(key, row) for key in shown}


RUNNING = ("running", "resumed")
STYLES = {**dict.fromkeys(RUNNING, "bold"), "failed": "red"}

AROUND = 7
"""Terminal lines besides the table's rows, including the prompt."""


class LiveTable:
    """Live table within the `with` block; other output appears above it.

    `total` is the number of jobs, None if it is unknown before the search. `shown` are keys of `HEADINGS`.
    """

    def __init__(
        self, title: str, total: int | None, console: Console | None = None, *, shown: Sequence[str] = SHOWN
    ) -> None:
        self.title = title
        self.total = total
        self.shown = shown
        self.console = Console() if console is None else console
        self._states: dict[str, str] = {}
        self._cells: dict[str, dict[str, str]] = {}
        self._scored: set[str] = set()
        self._since: dict[str, float] = {}
        self._began = time.monotonic()
        self._live = Live(
            console=self.console,
            get_renderable=self.table,
            refresh_per_second=1,  # a higher rate would slow the measured jobs
            transient=True,
            redirect_stderr=sys.stderr.isatty(),
        )

    def __enter__(self) -> "LiveTable":
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def starts(self, name: str, number: int, *, again: bool) -> None:
        """Show that a job is running."""
        self._since[name] = time.monotonic()
        self._states[name] = "resumed" if again else "running"

    def finished(self, name: str, result: Mapping[str, Any], *, before: bool) -> None:
        """Show a job's scores and costs."""
        self._cells[name] = cells(result, self.shown)
        self._scored.add(scored_split(result))
        self._states[name] = "done earlier" if before else "done"

    def failed(self, name: str, line: str) -> None:
        """Show a job as failed."""
        self._states[name] = "failed"

    def left(self, name: str) -> None:
        """Show a job as not started."""
        self._states[name] = "not started"

    def table(self) -> TerminalTable:
        """Return the current table, with only the newest rows if the terminal is too low for all."""
        rows = list(self._states.items())
        fitting = max(1, self.console.height - AROUND)
        hidden = len(rows[:-fitting])
        cells = [[f"({hidden} more above)"]] * (hidden > 0) + [self._row(*row) for row in rows[-fitting:]]
        titles = headings_of(*self._scored)
        headings = ("job", "", *(titles[key] for key in self.shown))
        table = Table(self._heading(), headings, cells, words=2).to_terminal(compact=True)
        for row, (_, state) in zip(table.rows[-fitting:], rows[-fitting:], strict=True):
            row.style = STYLES.get(state)
        return table

    def _row(self, name: str, state: str) -> list[str]:
        text = f"{state} {_elapsed(self._since[name])}" if state in RUNNING else state
        return [name, text, *(self._cells.get(name, {}).get(key, "") for key in self.shown)]

    def _heading(self) -> str:
        states = list(self._states.values())
        of = "" if self.total is None else f" of {self.total}"
        done, failed = sum(state.startswith("done") for state in states), states.count("failed")
        text = f"{self.title}: {done}{of} jobs finished" + (f", {failed} failed" if failed else "")
        return f"{text}, {_elapsed(self._began)}"


Reporter = LineReporter | LiveTable
"""Shows the progress of a sweep's jobs, by the names of their folders."""


def _elapsed(since: float) -> str:
    return str(timedelta(seconds=int(time.monotonic() - since)))
