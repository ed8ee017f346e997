"""The start of a training: its run folder, the lines printed before the first step, and the interrupt message."""

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from forecast.common.cli import naming_what_to_make_smaller
from forecast.common.errors import InputError, Interrupted, signal_behind
from forecast.common.files import folder_lock, gone, write_sealed
from forecast.common.group import Group
from forecast.data.datamodule import ForecastData
from forecast.data.sources import resume_words
from forecast.model.informer import Informer
from forecast.runs.checkpoint import checkpoints
from forecast.runs.results import PARTS
from forecast.runs.resume import StartState, newest_like
from forecast.runs.run import CONFIG, Run, clear_never_begun
from forecast.runs.settings import Settings
from forecast.training.prepare import Preparation


def signal_of(end: BaseException) -> int | None:
    """Return the number of the signal behind `end`, else None; Lightning turns an interrupt into exit code 1."""
    if isinstance(end, KeyboardInterrupt) or isinstance(end.__context__, KeyboardInterrupt):
        return signal.SIGINT
    code = end.code if isinstance(end, SystemExit) else None
    return code - 128 if isinstance(code, int) and code > 128 else None


class Interruption:
    """Turns a signal, or a lack of memory, within `with interruption.explained()` into one line with the cure."""

    def __init__(self, settings: Settings) -> None:
        self._run: Run | None = None
        self._settings = settings

    def watch(self, run: Run | None, settings: Settings) -> None:
        """Name this run folder, None if there is none yet, in later messages."""
        self._run, self._settings = run, settings

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `Interrupted` in place of a signal's exception, `NotEnoughMemory` when memory runs out."""
        before = sys.exception()
        try:
            with naming_what_to_make_smaller(self._settings.plain):
                yield
        except (KeyboardInterrupt, SystemExit, RuntimeError) as error:
            end = signal_behind(error, before)
            number = None if end is None else signal_of(end)
            if number is None:
                raise
            raise Interrupted(self._line(), number) from None

    def _line(self) -> str:
        if self._run is None:
            return "interrupted before the first step: no run folder was made: give the same command again"
        again = resume_words(self._run.path, self._settings.plain["data"])
        saved = checkpoints(self._run.checkpoints)
        if not saved:
            return f"interrupted before the first step: no training is lost: begin again with {again}"
        step = int(saved[0].stem.removeprefix("step-"))
        return f"interrupted: the training up to step {step:,} is saved: go on with {again}"


@contextmanager
def run_folder(start: StartState, folder: Path | None, settings: Settings) -> Iterator[Run]:
    """Yield the run's new or resumed folder, locked; a run that is refused before its first step leaves none."""
    if start.run is not None:
        yield start.run
        return
    with ExitStack() as stack:
        if folder is None:
            run = _new_folder(settings, start.settings.resume, stack)
        else:
            run = Run.create_at(folder)
            stack.enter_context(folder_lock(run.path))
            if (run.path / CONFIG).is_file():
                raise InputError(f"{run.path}: another process has just made a run there: give the same command again")
        try:
            yield run
        except InputError:  # what was refused before anything was learnt leaves no folder
            with suppress(OSError):
                if {path.name for path in run.path.iterdir()} <= {CONFIG}:
                    (run.path / CONFIG).unlink(missing_ok=True)
                    run.path.rmdir()
            raise
        except FileNotFoundError:
            if run.path.is_dir():
                raise
            raise gone(run.path) from None


def _new_folder(settings: Settings, resume: bool | str, stack: ExitStack) -> Run:
    """Make a run's folder and lock it on `stack`; if several begin the same run with resume=auto, one does."""
    root, name, config = Path(settings.output_dir), str(settings.data.name), settings.plain
    with folder_lock(Run.make_parent(root, name), wait=True):
        if resume == "auto" and (other := newest_like(config)) is not None:
            raise InputError(f"{other}: another process has just begun this run: wait for it, or use resume=false")
        run = Run.create(root, name)
        stack.enter_context(folder_lock(run.path))
        clear_never_begun(run.path.parent)
        write_sealed(run.path / CONFIG, config)
        return run


def announce_data(settings: Settings, data: ForecastData, network: Informer) -> None:
    """Print the facts of the data, before the fits in closed form: those of many series take a while."""
    name = settings.data.name
    for note in data.notes:
        print(f"{name}: {note}")
    windows = ", ".join(f"{len(part):,} {name}" for name, part in data.parts.items())
    if data.evaluation_stride > 1:
        windows += f" (of validation and test 1 in {data.evaluation_stride})"
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{name}: {len(data.index):,} rows, {len(data.source.targets)} targets; windows: {windows}")
    print(f"{name}: {data.placement}")
    print(f"{settings.model['name']}, attention {settings.attention['name']}: {parameters:,} parameters")
    print("linear maps: being fitted, before the first step", flush=True)


def announce_start(made: Preparation, run: Run, resumed: Mapping[str, Any] | None, group: Group) -> None:
    """Print the linear baseline, the length of the training and its folder."""
    ridge, start = made.maps.baseline, made.maps.start
    print(f"linear baseline: look-back {ridge.look_back}, penalty {ridge.penalty:.2g}, 1 window in {ridge.every}")
    if start is not None:
        print(f"linear path: starts from {start.name}")
    done = "" if resumed is None else f", going on after step {resumed['step']:,}"
    together = f" by {group.size} processes" if group.size > 1 else ""
    first = ", after compiling" if made.settings.training.compile else ""
    length = f"{made.task.total_steps:,} steps{together}{first}"
    print(f"training: {length}{done}, into {shlex.quote(str(run.path))}", flush=True)


def announce_scoring(made: Preparation, group: Group) -> None:
    """Print the number of scored windows, where progress is shown."""
    if made.settings.training.progress and group.leads:
        windows = ", ".join(f"{len(made.data.parts[part]):,} {part}" for part in PARTS)
        print(f"scoring: {windows} windows", flush=True)
