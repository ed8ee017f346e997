"""One more process of a run: `python -m forecast.parallel.follow <rank> <size> <meeting>`; `Children` starts it."""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path


def main() -> None:
    """Train beside the process that leads, and exit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the one that leads decides
    threading.Thread(target=_end_with_the_leader, daemon=True).start()
    from forecast.cli import finish
    from forecast.parallel.place import Place
    from forecast.training import follow

    rank, size = int(sys.argv[1]), int(sys.argv[2])
    place = Place(rank, size, local_rank=rank, local_size=size, meeting=sys.argv[3])
    sys.exit(finish(lambda: follow(place)))


def _end_with_the_leader() -> None:
    os.read(sys.stdin.fileno(), 1)  # not through a buffer, whose lock a process that ends could not have
    shutil.rmtree(Path(sys.argv[3].removeprefix("file://")).parent, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
