"""Run commands on folders from an unknown source, monitored from before the first import.

The command is `python -m tests.support.stranger_commands`. The request is one line of JSON on the standard input. The
reply, also one line of JSON, has the exit codes and the observed events.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.machinery import ModuleSpec
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.guard import Watch

PROGRAMS = ("git", "fc-list", "ldconfig")
"""Programs that may start: for the commit, for matplotlib's font list, and for torch's GPU libraries."""


class Imports:
    """Import hook that records the name of every requested module and finds none."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Record a name."""
        self.names.add(name)
        return None


ELSEWHERE = {"record": "benchmarks.accuracy.__main__"}
"""Modules of the commands that are not folders of the package."""


def main() -> None:
    """Run the commands one after another and print their outcomes and the requested modules."""
    work = json.loads(sys.stdin.readline())
    root = Path(work["root"])
    imports = Imports()
    sys.meta_path.insert(0, imports)  # type: ignore[arg-type]  # it has every method that is called
    sys.path.insert(0, str(root))  # as `python -m` and `python train.py` do with their folder
    os.chdir(root)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    places = tuple(root / name for name in work["writable"])
    Watch(root, places, (root / "private",), frozenset(work["modules"]), PROGRAMS).begin(writing)

    ended = [_ended(words) for words in work["commands"]]
    os.close(writing)
    with os.fdopen(reading) as events:
        seen = [json.loads(line) for line in events]
    print(json.dumps({"ended": ended, "seen": seen, "asked": sorted(imports.names), "loaded": sorted(sys.modules)}))


def _ended(words: Sequence[str]) -> dict[str, Any]:
    """Return the exit code of a command and its error output."""
    from importlib import import_module

    name, *arguments = words
    sys.argv = [name, *arguments]
    run: Callable[[], Any] = import_module(ELSEWHERE.get(name, f"forecast.{name}.__main__")).main
    out, error = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            code = run()
        except SystemExit as end:
            code = end.code
    return {"words": words, "code": code, "error": error.getvalue()}


if __name__ == "__main__":
    main()
