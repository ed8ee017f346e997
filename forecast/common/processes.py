"""Other processes of this program: how they are started, and how they learn that who started them has gone."""

import os
import sys
import threading
from collections.abc import Callable


def python(module: str, *arguments: str) -> list[str]:
    """Give the command that runs `module` in a new process of this interpreter."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(**more: str) -> dict[str, str]:
    """Give this process's environment for one that is to import what this one would, and `more`."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, **more}


def end_with_the_starter(clean_up: Callable[[], None] = lambda: None) -> None:
    """End this process, whatever it does, when its standard input closes: who started it has gone, however it went."""

    def wait() -> None:
        os.read(0, 1)  # not through a buffer, whose lock a process that ends could not have
        clean_up()
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="end-with-the-starter").start()
