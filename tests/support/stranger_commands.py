"""Run commands on folders of a stranger, watched from before the first import.

The command is `python -m tests.support.stranger_commands`. One line of JSON on the standard input says where and what;
the exit codes and what was seen come back as another.
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

from benchmarks.chaos.guard import Watch

PROGRAMS = ("git", "fc-list", "ldconfig")
"""What the program starts: for its commit, matplotlib once for the fonts of a machine, torch for a GPU's libraries."""


class Asked:
    """Notes the name of every module that is asked for, found or not; it finds none itself."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Note a name."""
        self.names.add(name)
        return None


ELSEWHERE = {"transplant": "forecast.predict.transplant", "record": "benchmarks.accuracy.__main__"}
"""Modules of the commands that have no folder of their own in the package."""


def main() -> None:
    """Run the commands in turn and tell how each ended, with the modules that were asked for."""
    work = json.loads(sys.stdin.readline())
    root = Path(work["root"])
    asked = Asked()
    sys.meta_path.insert(0, asked)  # type: ignore[arg-type]  # it has all that is called
    sys.path.insert(0, str(root))  # as `python -m` and `python train.py` have the folder they are started in
    os.chdir(root)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    places = tuple(root / name for name in work["writable"])
    Watch(root, places, (root / "private",), frozenset(work["modules"]), PROGRAMS).begin(writing)

    ended = [_ended(words) for words in work["commands"]]
    os.close(writing)
    with os.fdopen(reading) as events:
        seen = [json.loads(line) for line in events]
    print(json.dumps({"ended": ended, "seen": seen, "asked": sorted(asked.names), "loaded": sorted(sys.modules)}))


def _ended(words: Sequence[str]) -> dict[str, Any]:
    """Return the exit code of a command and what it printed as errors."""
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
