"""The hold of the leading process on the others of its run: it gathers them, and lets none wait for ever."""

import os
from dataclasses import replace
from types import TracebackType

from forecast.common.group import ALONE, Group
from forecast.common.place import find_place, started_place
from forecast.runs.settings import TrainerSettings
from forecast.training.parallel.children import Children


class Dismissal:
    """Handed out in the place of work where there is none, or where the leading process has failed."""

    def __init__(self, failed: bool) -> None:
        self.failed = failed


class Team:
    """Gives the processes of a run to the one that leads, for as long as the `with` block lasts."""

    def __init__(self) -> None:
        self.group = ALONE
        self._started = started_place(os.environ)
        self._children: Children | None = None

    def __enter__(self) -> "Team":
        if self._started is not None:
            assert self._started.rank == 0, "the others follow"
            self.group = Group(self._started)
            self.group.connect()  # the others are there already and wait
        return self

    def assemble(self, trainer: TrainerSettings) -> Group:
        """Return the processes that the `trainer` group asks for, started where nobody has done so.

        Raises
        ------
        InputError
            If it asks for what cannot be, or for others than were started.
        """
        place = find_place(self._started, *trainer.count_processes())
        if self._started is None and place.size > 1:
            self._children = Children(place.size)
            self.group = Group(replace(place, meeting=self._children.meeting))
        return self.group

    def part(self) -> None:
        """Let the others go: their part is done, and what happens to them is of no account any more."""
        self.group.close()
        if self._children is not None:
            self._children.done.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._started is not None and not self.group.told:
                self.group.hand_out(Dismissal(failed=error is not None))
            self.group.close()
        finally:
            if self._children is not None:
                self._children.end(error)
