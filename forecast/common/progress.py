"""How far a long measurement is, on the error stream: a bar on a terminal, lines where the output is piped."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from forecast.common.timing import clock

LINE = 10.0
"""Seconds between two lines where there is no terminal."""

BEAT = 30.0
"""Seconds after which a line repeats what runs, where that is in another process."""

Reports = tuple[Callable[[str], None], Callable[[int], None]]


@contextmanager
def progress(
    total: int, *, quiet: bool, opening: str = "", elsewhere: bool = False, console: Console | None = None
) -> Iterator[Reports]:
    """Show how many of `total` cases are done; give what says what runs now, and what adds cases.

    Parameters
    ----------
    opening
        What is going to be done, a line of its own.
    elsewhere
        Whether other processes measure: then time is shown as it passes, with an estimate of what is left. A process
        that measures itself shows something between its passes only, so that it costs none of them anything.
    console
        The error stream if not given.
    """
    console = Console(stderr=True) if console is None else console
    if quiet:
        yield lambda text: None, lambda count: None
        return
    if opening:
        console.print(opening, soft_wrap=True, markup=False, highlight=False)
    with (_bar if console.is_terminal else _lines)(total, console, elsewhere) as reports:
        yield reports


@contextmanager
def _bar(total: int, console: Console, elsewhere: bool) -> Iterator[Reports]:
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, auto_refresh=elsewhere, refresh_per_second=1, transient=True)
    task, state = bar.add_task("", total=total), _State(total, elsewhere)

    def say(text: str) -> None:
        state.text = text
        bar.update(task, description=state.now(), refresh=True)

    def advance(count: int) -> None:
        state.done += count
        bar.update(task, advance=count, refresh=True)

    with bar:
        yield say, advance


@contextmanager
def _lines(total: int, console: Console, elsewhere: bool) -> Iterator[Reports]:
    state = _State(total, elsewhere)
    over = threading.Event()

    def show(least: float) -> None:
        if (seconds := monotonic()) - state.shown >= least:
            state.shown = seconds
            with suppress(ValueError, OSError):  # a stream that was closed meanwhile
                console.print(
                    f"{state.done} of {total}, {clock(seconds - state.began)}: {state.now()}",
                    soft_wrap=True, markup=False, highlight=False,
                )  # fmt: skip

    def say(text: str) -> None:
        state.text = text
        show(LINE)

    def advance(count: int) -> None:
        state.done += count

    def beat() -> None:
        while not over.wait(BEAT / 10):
            show(BEAT)

    thread = threading.Thread(target=beat, daemon=True, name="progress") if elsewhere else None
    if thread is not None:
        thread.start()
    try:
        yield say, advance
    finally:
        over.set()
        if thread is not None:
            thread.join()


class _State:
    """What is done, and what runs."""

    def __init__(self, total: int, foretells: bool) -> None:
        self.total, self.foretells = total, foretells
        self.done, self.text, self.began, self.shown = 0, "", monotonic(), float("-inf")

    def now(self) -> str:
        """Return what runs, with the time that is left where cases take alike."""
        if not (self.foretells and self.done):
            return self.text
        left = (monotonic() - self.began) / self.done * (self.total - self.done)
        return f"{self.text}; about {clock(left)} left"
