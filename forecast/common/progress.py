"""Progress of a long measurement on the error stream: a bar in a terminal, lines in a pipe."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from forecast.common.timing import clock

LINE = 10.0
"""Seconds between two lines without a terminal."""

BEAT = 30.0
"""Seconds after which the line of a case that another process runs is repeated."""

Reports = tuple[Callable[[str], None], Callable[[int], None]]

_QUIET = ContextVar("quiet", default=False)
"""Whether this thread prints no lines."""


@contextmanager
def quietly(quiet: bool = True) -> Iterator[None]:
    """Print no lines of `say` in this thread, if `quiet`."""
    token = _QUIET.set(quiet)
    try:
        yield
    finally:
        _QUIET.reset(token)


def is_quiet() -> bool:
    """Return whether this thread prints no lines."""
    return _QUIET.get()


def say(line: str) -> None:
    """Print a line at once, unless this thread is quiet."""
    if not is_quiet():
        print(line, flush=True)


def notebook_line() -> Callable[[str], None]:
    """Return a function that replaces one line below a cell of a notebook."""
    from IPython.display import display

    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)


@contextmanager
def progress(
    total: int, *, quiet: bool, opening: str = "", elsewhere: bool = False, console: Console | None = None
) -> Iterator[Reports]:
    """Show how many of `total` cases are done; yield two functions: name the running case, add finished cases.

    `opening` is the first line. `elsewhere` says that other processes measure; elapsed and remaining time are then
    updated continuously. Otherwise output appears only between passes, so that it does not slow them. `console`
    defaults to the error stream.
    """
    console = _ErrorStream(stderr=True) if console is None else console
    if quiet or (is_quiet() and not console.is_terminal):
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
            with suppress(ValueError, OSError):  # the stream may be closed by now
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


class _ErrorStream(Console):
    def on_broken_pipe(self) -> None:
        """Raise the error; rich would discard what is printed on the output stream too."""
        raise BrokenPipeError


class _State:
    def __init__(self, total: int, estimates: bool) -> None:
        self.total, self.estimates = total, estimates
        self.done, self.text, self.began, self.shown = 0, "", monotonic(), float("-inf")

    def now(self) -> str:
        """Return the running case, with an estimate of the remaining time if requested."""
        if not (self.estimates and self.done):
            return self.text
        left = (monotonic() - self.began) / self.done * (self.total - self.done)
        return f"{self.text}; about {clock(left)} left"
