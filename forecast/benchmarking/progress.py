"""The bar of a long benchmark, drawn only between passes so that it costs none of them anything."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress(total: int, *, quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[int], None]]]:
    """Show a bar of `total` cases on the error stream; give what says what runs now, and what adds cases."""
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    # no thread of its own: it would run beside the passes that are timed
    bar = Progress(*columns, console=Console(stderr=True), disable=quiet, auto_refresh=False, transient=True)
    task = bar.add_task("", total=total)

    def say(text: str) -> None:
        bar.update(task, description=text, refresh=True)

    def advance(count: int) -> None:
        bar.update(task, advance=count, refresh=True)

    with bar:
        yield say, advance
