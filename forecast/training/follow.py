"""Another process of a run, which `Children` starts: `python -m forecast.training.follow`."""

import shutil
import signal
import sys
from pathlib import Path

from forecast.common.processes import end_with_the_starter


def main() -> None:
    """Train beside the process that leads, and exit."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal sends it to all; the one that leads decides
    end_with_the_starter(_clean_up)
    from forecast.common.cli import finish
    from forecast.common.place import Place
    from forecast.training.train import follow

    rank, size = int(sys.argv[1]), int(sys.argv[2])
    place = Place(rank, size, local_rank=rank, local_size=size, meeting=sys.argv[3])
    sys.exit(finish(lambda: follow(place)))


def _clean_up() -> None:
    shutil.rmtree(Path(sys.argv[3].removeprefix("file://")).parent, ignore_errors=True)


if __name__ == "__main__":
    main()
