"""Kills a sweep half-way with all its processes and gives it again: `python -m tests.killing_sweeps <folder>`.

The imports are made once; each sweep is forked from this process, which never computes itself.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

from forecast import command_line
from tests.small import QUICK, SIMULATED, SMALL

WORDS = ["-m", *SIMULATED, *SMALL["patch_informer"], *QUICK, "attention=full,linear", "seed=1,2", "sweep.name=s"]


def start(root: Path) -> int:
    """Fork a child, the head of a process group, that runs the sweep into `root`, and give its process number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        handle = os.open(root.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.argv = ["train.py", *WORDS, f"output_dir={root}"]
        command_line.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait(child: int) -> int:
    """Give the exit code of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(root: Path) -> dict[str, object]:
    """Give the exit codes, and which jobs were finished at the kill."""
    whole = wait(start(root / "whole"))
    child, folder = start(root / "killed"), root / "killed" / "sweeps" / "s"
    until = time.monotonic() + 300
    while len(list(folder.glob("*/config.json"))) < 3 and time.monotonic() < until:  # two are done, the third has begun
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    killed = wait(child)
    finished = sorted(path.parent.name for path in folder.glob("*/manifest.json"))
    return {"codes": [whole, killed, wait(start(root / "killed"))], "finished": finished}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
