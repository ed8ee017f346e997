"""Run commands of the program in forked child processes, with limits and captured output.

The parent process imports all modules once and does not compute. A child has its own session and folder, and calls the
same `main` as the command line.
"""

import gc
import importlib
import itertools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 20.0
"""Time limit of a command in seconds."""

GROWTH = 2 * 2**30
"""Maximum growth of a command's memory in bytes, beyond its imports."""

ROOM = 2**30
"""Bytes of address space beyond `GROWTH`, so that a child above the limit is detected and not stopped before."""

TOOLS = {
    "predict": "forecast.predict",
    "export": "forecast.export",
    "report": "forecast.report",
    "plan": "forecast.plan",
}
"""Commands besides `train`, with their modules."""

MODULES = (
    *(
        "forecast.training.command_line",
        "forecast.predict.forecaster",
        "forecast.training.tensorboard.logger",
        "forecast.training.outcome",
        "forecast.training.sweep.sweep",
        "forecast.training.train",
    ),
    *("forecast.common.pictures", "forecast.predict.ensemble", "forecast.runs.read", "forecast.report.html"),
    *("forecast.predict.transplanted", "forecast.export.parity"),
    *(
        "forecast.training.callbacks.figures",
        "forecast.training.callbacks.probe",
        "forecast.training.callbacks.profile",
    ),
    *("lightning.pytorch.callbacks", "torch.utils.tensorboard", "pyarrow.parquet", "pandas", "safetensors.torch"),
    *("torch.export", "torch._dynamo", "torch.onnx"),
)
"""Modules that the commands import later, besides `TOOLS`."""

_numbers = itertools.count()


@dataclass(frozen=True)
class Ended:
    """The outcome of a command.

    Attributes
    ----------
    code
        Exit code; the negative number of the signal if it was killed.
    seconds, processor_seconds
        Time from the fork to the end.
    growth
        Growth of the peak resident memory since the start, in bytes; None for a new process.
    late
        Whether it was killed at its time limit.
    """

    command: list[str]
    code: int
    out: str
    error: str
    seconds: float
    processor_seconds: float
    growth: int | None
    late: bool

    @property
    def text(self) -> str:
        """Standard output and standard error."""
        return f"{self.out}\n{self.error}"


@dataclass
class Child:
    """A running command."""

    command: list[str]
    process: int
    begun: float
    logs: Path
    forked: bool

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Wait for the end of the command; kill it and its child processes after `seconds`."""
        until, late = self.begun + seconds, False
        while True:
            ended, status, usage = os.wait4(self.process, os.WNOHANG)
            if ended:
                break
            if not late and time.monotonic() > until:
                late = True
                os.killpg(self.process, signal.SIGKILL)
            time.sleep(0.004)
        took = time.monotonic() - self.begun
        for straggler in (signal.SIGKILL,):  # child processes that still run
            try:
                os.killpg(self.process, straggler)
            except ProcessLookupError:
                break
        out, error, resident = (_text(self.logs.with_suffix(end)) for end in (".out", ".err", ".resident"))
        began = int(resident) if resident else None
        return Ended(
            command=self.command,
            code=os.waitstatus_to_exitcode(status),
            out=out,
            error=error,
            seconds=took,
            processor_seconds=usage.ru_utime + usage.ru_stime,
            growth=None if began is None else usage.ru_maxrss * 1024 - began,
            late=late,
        )

    def kill(self, number: int) -> None:
        """Send the signal to the command, not to its child processes."""
        os.kill(self.process, number)  # the process has not been waited for, so its id is still valid


def module_of(tool: str) -> str:
    """Return the module with the `main` of a command."""
    name = TOOLS[tool]
    return name if name.count(".") > 1 else f"{name}.__main__"


def import_all() -> None:
    """Import what the commands need, so that no child has to, and leave it out of later collections."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    for name in (*MODULES, *map(module_of, TOOLS)):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def start(
    command: Sequence[str],
    folder: Path,
    logs: Path,
    *,
    before: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
    fresh: bool = False,
) -> Child:
    """Start a command in `folder`.

    Parameters
    ----------
    command
        "train" or one of `TOOLS`, then its arguments.
    folder
        Working directory, first on the import path, as with `python -m` and `python train.py`.
    logs
        Folder for the output.
    before
        Function that the child calls first.
    seconds
        Limit of processor time in seconds.
    fresh
        Start a new Python process instead of a fork, without `before`.
    """
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{os.getpid()}-{next(_numbers)}"
    changes = dict(environment or {})
    if fresh:
        return _start_fresh(list(command), folder, log, changes)
    sys.stdout.flush()
    sys.stderr.flush()
    begun = time.monotonic()
    process = os.fork()
    if process:
        return Child(list(command), process, begun, log, forked=True)
    code = 1
    try:
        _settle(folder, log, changes, seconds)
        log.with_suffix(".resident").write_text(str(_resident()))
        before()
        code = _call(list(command))
    except BaseException:  # as the interpreter does: print the traceback, exit with code 1
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def run(command: Sequence[str], folder: Path, logs: Path, **options: object) -> Ended:
    """Run a command and return its outcome."""
    seconds = float(str(options.get("seconds", SECONDS)))
    return start(command, folder, logs, **options).wait(seconds)  # type: ignore[arg-type]


def _start_fresh(command: list[str], folder: Path, log: Path, changes: dict[str, str]) -> Child:
    name, *words = command
    script = folder / "train.py"
    if name == "train":
        script.write_text((ROOT / "train.py").read_text(encoding="utf-8"), encoding="utf-8")
    first = [str(script)] if name == "train" else ["-m", TOOLS[name]]
    with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as error:
        process = subprocess.Popen(
            [sys.executable, *first, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=error,
            start_new_session=True, env={**os.environ, **changes, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    begun = time.monotonic()
    process.returncode = 0  # `Child.wait` waits for it
    return Child(command, process.pid, begun, log, forked=False)


def _settle(folder: Path, log: Path, changes: dict[str, str], seconds: float) -> None:
    """Put the forked process into its own session, folder, streams, signals and limits."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(changes)
    tempfile.tempdir = None  # clear the cached value
    sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(ROOT))), str(ROOT)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    for descriptor, place, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, log.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, log.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        handle = os.open(place, flags)
        os.dup2(handle, descriptor)
        os.close(handle)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH + ROOM,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _call(command: list[str]) -> int:
    """Call the command's `main` and return its exit code."""
    name, *words = command
    try:
        if name == "train":
            sys.argv = ["train.py", *words]
            importlib.import_module("forecast.training.command_line").main()
            return 0
        sys.argv = [TOOLS[name], *words]
        return int(importlib.import_module(module_of(name)).main(words))
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
