"""What a training says that is interrupted where no step could be saved: what is kept, and how it goes on."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from forecast.common.errors import Interrupted, signal_behind
from forecast.data.sources import resume_words
from forecast.runs.checkpoint import checkpoints
from forecast.runs.run import Run


def signal_of(end: BaseException) -> int | None:
    """Return the number of the signal that `end` came from, None for another end.

    Lightning makes exit code 1 of an interrupt.
    """
    if isinstance(end, KeyboardInterrupt) or isinstance(end.__context__, KeyboardInterrupt):
        return signal.SIGINT
    code = end.code if isinstance(end, SystemExit) else None
    return code - 128 if isinstance(code, int) and code > 128 else None


class Interruption:
    """Turns a signal within `with interruption.explained()` into one line.

    Attributes
    ----------
    run
        The run's folder, None until there is one.
    data
        The `data` group of its configuration: a file elsewhere is named beside the folder.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.data: Mapping[str, Any] = {}

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `Interrupted` in the place of what a signal raises.

        Raises
        ------
        Interrupted
            With what is kept and the words that go on from there.
        """
        before = sys.exception()
        try:
            yield
        except (KeyboardInterrupt, SystemExit, RuntimeError) as error:
            end = signal_behind(error, before)
            number = None if end is None else signal_of(end)
            if number is None:
                raise
            raise Interrupted(self._line(), number) from None

    def _line(self) -> str:
        if self.run is None:
            return "interrupted before the first step: no run folder was made: give the same command again"
        again = resume_words(self.run.path, self.data)
        saved = checkpoints(self.run.checkpoints)
        if not saved:
            return f"interrupted before the first step: no training is lost: begin again with {again}"
        step = int(saved[0].stem.removeprefix("step-"))
        return f"interrupted: the training up to step {step:,} is saved: go on with {again}"
