"""Trains in child processes that are killed at random instants: `python -m tests.killing <config.json> <trials>`.

The imports are made once; each child is forked from this process, which never computes itself.
"""

import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from forecast.files import sha256
from forecast.training import train


def start(config: dict[str, Any], log: Path) -> int:
    """Fork a child that trains as `config` says, and give its process number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch.set_num_threads(1)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        train(config)
        code = 0
    finally:
        os._exit(code)


def kill_after(child: int, seconds: float) -> bool:
    """Kill the child after so many seconds; False if it had ended before."""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def finished(root: Path) -> dict[str, Any]:
    """Give what the one finished run below `root` found, and what is left lying about."""
    (result,) = root.glob("**/result.json")
    content = json.loads(result.read_text())
    return {
        "weights": sha256(result.parent / "model.safetensors"),
        "test": content["test"],
        "best_step": content["model"]["best_step"],
        "runs": len(list(root.glob("**/config.json"))),
        "leftovers": [path.name for path in root.rglob("*") if path.suffix in (".tmp", ".part")],
    }


def main(config: dict[str, Any], trials: int) -> dict[str, Any]:
    """Give what the whole run found, and each of those that were killed, once or twice, and then completed."""
    root = Path(config["output_dir"])
    log = root.with_suffix(".log")
    began = time.monotonic()
    assert os.waitpid(start({**config, "output_dir": str(root / "whole")}, log), 0)[1] == 0, log.read_text()
    duration = time.monotonic() - began
    generator = random.Random(0)
    report: dict[str, Any] = {"whole": finished(root / "whole"), "runs": []}
    folders = (root / str(number) for number in itertools.count())
    while len(report["runs"]) < trials:
        mine = {**config, "output_dir": str(next(folders)), "resume": "auto"}
        if not kill_after(start(mine, log), generator.uniform(0.02, 1) * duration):
            duration *= 0.9  # this machine is quicker by now: no trial of a kill, and the next are drawn shorter
            continue
        if generator.random() < 1 / 3:
            kill_after(start(mine, log), generator.uniform(0.02, 1) * duration)
        assert os.waitpid(start(mine, log), 0)[1] == 0, log.read_text()
        report["runs"].append(finished(Path(mine["output_dir"])))
    report["resumed"] = log.read_text().count("going on after step")
    return report


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]))))
