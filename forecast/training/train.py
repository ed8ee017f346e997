"""From a configuration to a finished run folder: prepare, fit, test on the best, result."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import DummyLogger, Logger

from forecast.common.cli import naming_what_to_make_smaller
from forecast.common.errors import InputError, Interrupted
from forecast.common.files import folder_lock, gone, write_sealed
from forecast.common.group import Group
from forecast.common.naming import named
from forecast.common.place import Place
from forecast.data.datamodule import ForecastData
from forecast.data.mapped import Address
from forecast.data.sources import resume_words
from forecast.evaluation.evaluate import Row
from forecast.evaluation.linear_start import LinearMaps
from forecast.evaluation.scoring import score
from forecast.model.informer import Informer
from forecast.runs.results import PARTS, commit
from forecast.runs.resume import Beginning, begin, newest_like
from forecast.runs.run import CONFIG, Run, clear_never_begun
from forecast.runs.settings import read_root
from forecast.training.checkpoint_content import newest_state
from forecast.training.final_figures import log_figures
from forecast.training.fitting import Fit, fit
from forecast.training.interruption import Interruption
from forecast.training.outcome import write_outcome
from forecast.training.parallel.workers import Shutdown, Workers
from forecast.training.preparation import Preparation, prepare
from forecast.training.tensorboard.logger import check_logger, log_end, log_start, make_logger


def train(
    config: Mapping[str, Any], *, folder: Path | None = None, overrides: Sequence[str] | None = None
) -> tuple[Run, dict[str, Any]]:
    """Train one model as `config` says and give its run folder and the content of its `result.json`.

    A run that is finished is not run again: its result is read.

    Parameters
    ----------
    config
        Plain values, the composed configuration.
    folder
        The very folder of the run: made, or gone on with if it holds this run. None: a new one under
        `output_dir`, or what `resume` says.
    overrides
        The words of the command line that `config` was composed from; they tell what was asked for from
        what is a default, which `resume=<folder>` needs.

    Raises
    ------
    InputError
        If the configuration or the data cannot be used; nothing has been written then.
    NotFiniteError
        If a loss or gradient is not finite.
    Interrupted
        If a signal ended the training: what is saved, and how it goes on.
    NotEnoughMemory
        With the options to make smaller.
    ProcessFailed
        If another process of the run failed.
    """
    interruption = Interruption()
    with interruption.explained(), naming_what_to_make_smaller(config), Workers() as team:
        config = named(config)
        read_root(config)
        with begin(config, folder=folder, overrides=overrides) as beginning:
            if beginning.result is not None:
                assert beginning.run is not None
                print(f"{beginning.run.path}: finished before, nothing is left to do")
                return beginning.run, beginning.result
            interruption.run, interruption.data = beginning.run, beginning.config["data"]
            return _train(beginning, folder, team, interruption)


@dataclass(frozen=True)
class Work:
    """What the process that leads hands out to the others of its run; they find their own data."""

    config: dict[str, Any]
    maps: LinearMaps
    table: Address | None
    run: Run
    resumed: dict[str, Any] | None
    anew: str


def run_worker(place: Place) -> None:
    """Train beside the process that leads, which alone writes and prints, until the last window is scored."""
    group = Group(place)
    group.connect()
    work: Work | Shutdown = group.hand_out()
    if isinstance(work, Shutdown):
        raise SystemExit(int(work.failed))
    beside_it = place.rank < place.local_size  # on the machine of the process that leads
    made = prepare(work.config, group, work.maps, work.table if beside_it else None)
    with suppress(Interrupted):  # the one that leads has saved the step, and says so
        _fit_and_score(made, work.run, work.resumed, work.anew, DummyLogger(), group)
    group.close()  # not after a fault: the others would notice before this process has said what it was


def _train(
    beginning: Beginning, folder: Path | None, team: Workers, interruption: Interruption
) -> tuple[Run, dict[str, Any]]:
    commit()  # of the code that this process has read, whatever is committed while it trains
    group = team.assemble(beginning.config["trainer"])
    check_logger(beginning.config["logger"])
    made = prepare(beginning.config, group, before_maps=partial(_introduce_data, beginning.config))
    config, data = made.config, made.data
    with _folder(beginning, folder, config) as run:
        interruption.run = run
        resumed = newest_state(run, made.task, made.callbacks, len(data.parts["validation"]))
        logger = make_logger(config["logger"], str(run.path), purge_step=0 if resumed is None else resumed["step"])
        if resumed is None:
            run.clear()
        write_sealed(run.path / CONFIG, config)
        _introduce(made, run, resumed, group)
        log_start(logger, config)
        maps = made.maps.to("cpu")  # every process has a device of its own
        group.hand_out(Work(config, maps, data.address, run, resumed, beginning.anew))
        outcome, rows = _fit_and_score(made, run, resumed, beginning.anew, logger, group)
        team.part()
        outcome = log_figures(logger, outcome, made.network, data, rows)
        result = write_outcome(
            run,
            config,
            data,
            made.network,
            rows,
            made.maps,
            outcome,
            trust=made.task.trust,
            precision=made.precision,
            device=made.device,
            processes=group.size,
        )
        log_end(logger, result)
        run.close(made.architecture, data.manifest())
    return run, result


def _fit_and_score(
    made: Preparation, run: Run, resumed: dict[str, Any] | None, anew: str, logger: Logger, group: Group
) -> tuple[Fit, dict[str, Row | None]]:
    """Train, and score the best weights; all processes of `group` do this together."""
    outcome = fit(
        made.task,
        made.data,
        run.checkpoints,
        settings=made.settings,
        precision=made.precision,
        device=made.device,
        trainer_options=made.config["trainer"],
        callbacks=made.callbacks,
        logger=logger,
        start_is_candidate=made.maps.start is not None,
        resumed=resumed,
        anew=anew,
        again=resume_words(run.path, made.config["data"]),
        group=group,
    )
    if made.settings.progress and group.leads:
        print(f"scoring: {', '.join(f'{len(made.data.parts[part]):,} {part}' for part in PARTS)} windows", flush=True)
    return outcome, score(made.network.to(made.device).eval(), made.data, made.maps.baseline, group)


@contextmanager
def _folder(beginning: Beginning, folder: Path | None, config: Mapping[str, Any]) -> Iterator[Run]:
    """Yield the run's folder, held by this process: the one that is gone on with, or a new one."""
    if beginning.run is not None:
        yield beginning.run
        return
    with ExitStack() as stack:
        if folder is None:
            run = _new_folder(config, beginning.config.get("resume"), stack)
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


def _new_folder(config: Mapping[str, Any], resume: Any, stack: ExitStack) -> Run:
    """Make a run's folder and hold it on `stack`; of several that begin the same run with resume=auto, one does.

    Raises
    ------
    InputError
        If another process has begun the run since this one looked for it.
    """
    root, name = Path(str(config["output_dir"])), str(config["data"]["name"])
    with folder_lock(Run.make_parent(root, name), wait=True):
        if resume == "auto" and (other := newest_like(config)) is not None:
            raise InputError(f"{other}: another process has just begun this run: wait for it, or use resume=false")
        run = Run.create(root, name)
        stack.enter_context(folder_lock(run.path))
        clear_never_begun(run.path.parent)
        write_sealed(run.path / CONFIG, config)
        return run


def _introduce_data(config: Mapping[str, Any], data: ForecastData, network: Informer) -> None:
    """Say what is trained on, before the fits in closed form: those of many series take a while."""
    for note in data.notes:
        print(f"{config['data']['name']}: {note}")
    windows = ", ".join(f"{len(part):,} {name}" for name, part in data.parts.items())
    if data.evaluation_stride > 1:
        windows += f" (of validation and test 1 in {data.evaluation_stride})"
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{config['data']['name']}: {len(data.index):,} rows, {len(data.source.targets)} targets; windows: {windows}")
    print(f"{config['data']['name']}: {data.placement}")
    print(f"{config['model']['name']}, attention {config['attention']['name']}: {parameters:,} parameters")
    print("linear maps: being fitted, before the first step", flush=True)


def _introduce(made: Preparation, run: Run, resumed: Mapping[str, Any] | None, group: Group) -> None:
    ridge, start = made.maps.baseline, made.maps.start
    print(f"linear baseline: look-back {ridge.look_back}, penalty {ridge.penalty:.2g}, 1 window in {ridge.every}")
    if start is not None:
        print(f"linear path: starts from {start.name}")
    done = "" if resumed is None else f", going on after step {resumed['step']:,}"
    together = f" by {group.size} processes" if group.size > 1 else ""
    first = ", after compiling" if made.settings.compile else ""
    length = f"{made.task.total_steps:,} steps{together}{first}"
    print(f"training: {length}{done}, into {shlex.quote(str(run.path))}", flush=True)
