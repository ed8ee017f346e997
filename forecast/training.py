"""From a configuration to a finished run folder: prepare, fit, test on the best, result."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import DummyLogger, Logger

from forecast.claim import claimed
from forecast.data.mapped import Address
from forecast.errors import InputError, Interrupted
from forecast.files import write_json
from forecast.final_figures import log_figures
from forecast.fitting import Fit, fit
from forecast.linear_start import LinearMaps
from forecast.outcome import write_outcome
from forecast.parallel.group import Group
from forecast.parallel.place import Place
from forecast.parallel.team import Dismissal, Team
from forecast.preparation import Preparation, prepare
from forecast.results import Row, commit
from forecast.resume import Beginning, begin
from forecast.run import CONFIG, Run
from forecast.run_logger import check_logger, log_end, log_start, make_logger
from forecast.scoring import score
from forecast.settings import read_root


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
        If a signal ended the training, which can be resumed.
    ProcessFailed
        If another process of the run failed.
    """
    with Team() as team:
        read_root(config)
        with begin(config, folder=folder, overrides=overrides) as beginning:
            if beginning.result is not None:
                assert beginning.run is not None
                print(f"{beginning.run.path}: finished before, nothing is left to do")
                return beginning.run, beginning.result
            return _train(beginning, folder, team)


@dataclass(frozen=True)
class Work:
    """What the process that leads hands out to the others of its run; they find their own data."""

    config: dict[str, Any]
    maps: LinearMaps
    table: Address | None
    run: Run
    resumed: dict[str, Any] | None
    anew: str


def follow(place: Place) -> None:
    """Train beside the process that leads, which alone writes and prints, until the last window is scored."""
    group = Group(place)
    group.connect()
    work: Work | Dismissal = group.hand_out()
    if isinstance(work, Dismissal):
        raise SystemExit(int(work.failed))
    beside_it = place.rank < place.local_size  # on the machine of the process that leads
    made = prepare(work.config, group, work.maps, work.table if beside_it else None)
    with suppress(Interrupted):  # the one that leads has saved the step, and says so
        _fit_and_score(made, work.run, work.resumed, work.anew, DummyLogger(), group)
    group.close()  # not after a fault: the others would notice before this process has said what it was


def _train(beginning: Beginning, folder: Path | None, team: Team) -> tuple[Run, dict[str, Any]]:
    commit()  # of the code that this process has read, whatever is committed while it trains
    group = team.assemble(beginning.config["trainer"])
    made = prepare(beginning.config, group)
    config, data = made.config, made.data
    check_logger(config["logger"])
    with _folder(beginning, folder, config) as run:
        if beginning.checkpoint is None:
            run.clear()
        write_json(run.path / CONFIG, config)
        resumed = beginning.checkpoint
        _introduce(made, run, resumed, group)
        logger = make_logger(config["logger"], str(run.path), purge_step=0 if resumed is None else resumed["step"])
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
        group=group,
    )
    return outcome, score(made.network.to(made.device).eval(), made.data, made.maps.baseline, group)


@contextmanager
def _folder(beginning: Beginning, folder: Path | None, config: Mapping[str, Any]) -> Iterator[Run]:
    """Give the run's folder, held by this process: the one that is gone on with, or a new one."""
    if beginning.run is not None:
        yield beginning.run
        return
    root, name = Path(str(config["output_dir"])), str(config["data"]["name"])
    run = Run.create(root, name) if folder is None else Run.create_at(folder)
    with claimed(run.path):
        if (run.path / CONFIG).is_file():
            raise InputError(f"{run.path}: another process has just made a run there: give the same command again")
        yield run


def _introduce(made: Preparation, run: Run, resumed: Mapping[str, Any] | None, group: Group) -> None:
    config, data, ridge, start = made.config, made.data, made.maps.baseline, made.maps.start
    for note in data.notes:
        print(f"{config['data']['name']}: {note}")
    windows = ", ".join(f"{len(part):,} {name}" for name, part in data.parts.items())
    if data.evaluation_stride > 1:
        windows += f" (of validation and test 1 in {data.evaluation_stride})"
    parameters = sum(parameter.numel() for parameter in made.network.parameters())
    print(f"{config['data']['name']}: {len(data.index):,} rows, {len(data.source.targets)} targets; windows: {windows}")
    print(f"{config['data']['name']}: {data.placement}")
    print(f"{config['model']['name']}, attention {config['attention']['name']}: {parameters:,} parameters")
    print(f"linear baseline: look-back {ridge.look_back}, penalty {ridge.penalty:.2g}, 1 window in {ridge.every}")
    if start is not None:
        print(f"linear path: starts from {start.name}")
    done = "" if resumed is None else f", going on after step {resumed['step']:,}"
    together = f" by {group.size} processes" if group.size > 1 else ""
    first = ", after compiling" if made.settings.compile else ""
    length = f"{made.task.total_steps:,} steps{together}{first}"
    print(f"training: {length} into {shlex.quote(str(run.path))}{done}", flush=True)


def main() -> None:
    """Train as the command line says, in Hydra's grammar, and exit."""
    from forecast.command_line import main as command_line  # which imports this module

    command_line()


if __name__ == "__main__":
    main()
