"""The start of a training: the run folder, the printed lines and the message of an interrupt."""

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecast.common.cli import naming_what_to_make_smaller
from forecast.common.errors import InputError, Interrupted, signal_behind
from forecast.common.files import folder_lock, gone, write_sealed
from forecast.common.group import Group
from forecast.common.progress import say
from forecast.common.text import counted
from forecast.data.datamodule import ForecastData
from forecast.data.sources import Source, resume_words
from forecast.evaluation.significance import FEWEST
from forecast.model.informer import Informer
from forecast.runs.checkpoint import checkpoints
from forecast.runs.results import PARTS
from forecast.runs.resume import StartState, newest_like
from forecast.runs.run import CONFIG, Run, clear_never_begun, make_folder
from forecast.runs.settings import Settings
from forecast.runs.summary import first_names
from forecast.training.prepare import Preparation, many_inputs


def signal_of(end: BaseException) -> int | None:
    """Return the signal that caused `end`, or None; Lightning turns a KeyboardInterrupt into exit code 1."""
    if isinstance(end, KeyboardInterrupt) or isinstance(end.__context__, KeyboardInterrupt):
        return signal.SIGINT
    code = end.code if isinstance(end, SystemExit) else None
    return code - 128 if isinstance(code, int) and code > 128 else None


@dataclass
class Interruption:
    """Explanation of a signal or of a lack of memory in one line that says how to continue.

    The line names the folder of `run`, None if it does not exist yet.
    """

    settings: Settings
    run: Run | None = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Replace the exception of a signal by `Interrupted`, and a lack of memory by `NotEnoughMemory`."""
        before = sys.exception()
        try:
            with naming_what_to_make_smaller(self.settings.plain):
                yield
        except (KeyboardInterrupt, SystemExit, RuntimeError) as error:
            end = signal_behind(error, before)
            number = None if end is None else signal_of(end)
            if number is None:
                raise
            raise Interrupted(self._line(), number) from None

    def _line(self) -> str:
        if self.run is None:
            return "interrupted before the first step: no run folder was made: run the same command again"
        words = resume_words(self.run.path, self.settings.plain["data"])
        saved = checkpoints(self.run.checkpoints)
        if not saved:
            return f"interrupted before the first step: no training is lost: start again with {words}"
        step = int(saved[0].stem.removeprefix("step-"))
        return f"interrupted: the training up to step {step:,} is saved: resume with {words}"


@contextmanager
def run_folder(start: StartState, folder: Path | None, settings: Settings) -> Iterator[Run]:
    """Yield the new or resumed run folder, locked; remove a new one if the run is refused before its first step."""
    if start.run is not None:
        yield start.run
        return
    with ExitStack() as stack:
        if folder is None:
            run = _new_folder(settings, start.settings.resume, stack)
        else:
            run = Run(make_folder(folder))
            stack.enter_context(folder_lock(run.path))
            if (run.path / CONFIG).is_file():
                raise InputError(f"{run.path}: another process has just made a run there: run the same command again")
        try:
            yield run
        except InputError:
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
    """Create and lock a run folder; if several processes start the same run with resume=auto, only one succeeds."""
    root, name, config = Path(settings.output_dir), str(settings.data.name), settings.plain
    with folder_lock(make_folder(Run.parent(root, name)), wait=True):
        if resume == "auto" and (other := newest_like(config)) is not None:
            raise InputError(f"{other}: another process has just started this run: wait for it, or use resume=false")
        run = Run.create(root, name)
        stack.enter_context(folder_lock(run.path))
        clear_never_begun(run.path.parent)
        write_sealed(run.path / CONFIG, config)
        return run


def announce_data(settings: Settings, announced: set[str], data: ForecastData, network: Informer) -> None:
    """Print size and roles of the data, and the size of the model, before the linear models are fitted.

    Lines on the data that are in `announced` are not repeated; new ones are added.
    """
    name = settings.data.name
    windows = ", ".join(f"{len(data.parts[name]):,} {name}" for name in _splits(data))
    if data.evaluation_stride > 1:
        windows += f" (1 in {data.evaluation_stride} of validation and test)"
    parameters = sum(parameter.numel() for parameter in network.parameters())
    size = f"{data.source.series.num_rows:,} rows, {counted(len(data.source.targets), 'target')}; windows: {windows}"
    placement = [str(data.placement)] if data.placement.is_notable else []
    warnings = [f"WARNING: {text}" for text in data.warnings]
    chosen = [settings.chosen] if settings.chosen else []
    for line in (*data.notes, *warnings, size, *chosen, *roles_lines(data.source), *placement):
        if line not in announced:
            say(f"{name}: {line}")
            announced.add(line)
    say(f"{settings.model['name']}, attention {settings.attention['name']}: {parameters:,} parameters")
    inputs, targets = many_inputs(data), len(data.source.targets)
    long = f": {inputs:,} known inputs for each of {targets:,} targets, which takes minutes" if inputs else ""
    say(f"fitting the linear models before the first step{long}")


NAMED = 12
"""Largest number of columns of a role that are printed by name."""


def roles_lines(source: Source) -> list[str]:
    """Return a line with the columns of each role, unless all are targets, and one with the columns without a role."""
    inputs = {
        "past covariates": source.roles.past,
        "known covariates": source.roles.known,
        "static covariates": [*source.roles.static, *(source.roles.fixed or ())],
    }
    given = {role: names for role, names in inputs.items() if names}
    unread = [f"columns not read: {first_names(source.series.unread, NAMED)}"] if source.series.unread else []
    if not given and not unread:
        return []
    roles = {"targets": source.targets, **given}
    return ["; ".join(f"{role}: {first_names(names, NAMED)}" for role, names in roles.items()), *unread]


def announce_start(prepared: Preparation, run: Run, resumed: Mapping[str, Any] | None, group: Group) -> None:
    """Print the linear baseline, the number of steps and the run folder."""
    ridge, start = prepared.linear_maps.baseline, prepared.linear_maps.start
    fitted_on = "all windows" if ridge.every == 1 else f"1 window in {ridge.every}"
    say(
        f"linear baseline: ridge regression on the last {ridge.look_back:,} steps, penalty {ridge.penalty:.2g}, fitted "
        f"on {fitted_on}{_known_inputs(prepared)}"
    )
    if start is not None:
        combined = "a combination: " if "+" in start.name else ""
        source = "this ridge regression" if start.name == ridge.name else f"{combined}{start.name}"
        say(f"linear path of the model: starts from {source}")
    for line in [] if prepared.start is None else prepared.start.lines(prepared.data, prepared.task):
        say(line)
    if names := prepared.settings.freeze:
        fixed = sum(weight.numel() for weight in prepared.network.parameters() if not weight.requires_grad)
        say(f"not trained: {fixed:,} parameters ({', '.join(names)})")
    done = "" if resumed is None else f", resuming after step {resumed['step']:,}"
    processes = f" on {group.size} processes" if group.size > 1 else ""
    compiling = ", after compiling" if prepared.settings.training.compile else ""
    length = f"{prepared.task.total_steps:,} steps{processes}{compiling}{_ended_by_epochs(prepared)}"
    if (blocks := prepared.validation_blocks) is not None and blocks < FEWEST:
        say(
            f"note: validation is too short to accept trained weights ({blocks} of {FEWEST} blocks needed): the "
            "forecast will be this start. Lengthen validation (data.split), shorten the horizon, or set "
            "training.start_confidence=null"
        )
    say(f"training: {length}{done}, in {shlex.quote(str(run.path))}")


def _known_inputs(prepared: Preparation) -> str:
    """Return whether the linear baseline reads the known covariates; empty without any."""
    if not prepared.data.source.roles.known:
        return ""
    if prepared.linear_maps.baseline.known is not None:
        return "; it reads the known covariates"
    few = prepared.data.layout.look_back is not None
    return f"; it does not read the known covariates{', since validation is better without them' if few else ''}"


def _ended_by_epochs(prepared: Preparation) -> str:
    """Return which option ends the training before the steps that were asked for; empty if none does."""
    training = prepared.settings.training
    if training.max_steps is None or prepared.task.total_steps >= training.max_steps:
        return ""
    return f" (training.max_epochs={training.max_epochs} ends it; with null it makes {training.max_steps:,})"


def announce_scoring(prepared: Preparation, group: Group) -> None:
    """Print the number of windows to score, if progress is shown."""
    if prepared.settings.training.progress and group.leads:
        data = prepared.data
        windows = ", ".join(f"{len(data.parts[name]):,} {name}" for name in _splits(data) if name in PARTS)
        more = prepared.settings.evaluation.baselines
        say(f"scoring: {windows} windows" + (f"; fitting {', '.join(more)}" if more else ""))


def _splits(data: ForecastData) -> list[str]:
    """Return the names of the splits; without a test split, validation takes its place and counts once."""
    return [name for name in data.parts if name != "test" or data.split.test]
