"""Sweeps through the command line, in this process."""

import io
import json
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from forecast.common.processes import SIGNALS
from forecast.training import command_line
from tests.support.small import QUICK, SIMULATED, SMALL

SHARED = [*SIMULATED, *SMALL["patch_informer"], *QUICK]


SIX = ["attention=full,probsparse,linear", "seed=1,2"]


NAMES = {f"attention-{name}_seed-{seed}" for name in ("full", "probsparse", "linear") for seed in (1, 2)}


class Ended:
    """Outcome of `python train.py -m …`: exit code, both streams, and both interleaved as on a terminal."""

    def __init__(self) -> None:
        self.code: Any = None
        self.out, self.err, self.both = io.StringIO(), io.StringIO(), io.StringIO()

    @property
    def errors(self) -> list[str]:
        return self.err.getvalue().splitlines()

    @property
    def started(self) -> list[str]:
        lines = (line.split() for line in self.out.getvalue().splitlines())
        return [words[2] for words in lines if words[:1] == ["job"]]


class Tee(io.StringIO):
    def __init__(self, *streams: io.StringIO) -> None:
        super().__init__()
        self.streams = streams

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)


def command(folder: Path, *words: str, multirun: bool = True) -> Ended:
    """Run `python train.py -m <words>` into `folder`."""
    untimed = [] if any(word.startswith("sweep.repeat_timing") for word in words) else ["sweep.repeat_timing=0"]
    return typed(*(["-m", *untimed] if multirun else []), *SHARED, f"output_dir={folder}", *words)


def typed(*words: str) -> Ended:
    """Run `python train.py <words>`."""
    ended, handlers = Ended(), {number: signal.getsignal(number) for number in SIGNALS}
    argv = ["train.py", *words]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(Tee(ended.out, ended.both)),
        redirect_stderr(Tee(ended.err, ended.both)),
    ):
        patch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as end:
            command_line.main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    ended.code = end.value.code
    return ended


def read(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content
