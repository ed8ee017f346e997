"""A job of a sweep in its own process, which `train_apart` starts: `python -m forecast.training.sweep.child`."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from forecast.common.processes import end_with_the_starter


def main() -> None:
    """Train, tell what came of it if that is not a result, and exit as a run alone would."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a training prints is shown only if it fails
    work = json.loads(sys.stdin.readline())
    end_with_the_starter()
    sys.argv = work["argv"]
    from forecast.common.cli import finish

    sys.exit(finish(lambda: _train(work, answer)))


def _train(work: dict[str, Any], answer: IO[str]) -> None:
    from forecast.common.errors import Interrupted
    from forecast.training.sweep.isolated import Failure
    from forecast.training.train import train

    try:
        train(work["config"], folder=Path(work["folder"]))
    except Interrupted as end:
        answer.write(json.dumps({"interrupted": str(end)}))
        raise
    except Exception as error:  # the boundary of a job, as where it runs in the sweep's own process
        answer.write(json.dumps({"failure": asdict(Failure.of(error))}))
        raise
    finally:
        answer.close()


if __name__ == "__main__":
    main()
