"""One training, from a configuration to a finished run folder: prepare, fit, score, write the outcome."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import DummyLogger

from forecast.common.errors import Interrupted
from forecast.common.files import write_sealed
from forecast.common.group import Group
from forecast.common.place import Place
from forecast.data.mapped import Address
from forecast.data.sources import resume_words
from forecast.evaluation.linear_start import LinearMaps
from forecast.evaluation.scoring import score
from forecast.runs.results import commit
from forecast.runs.resume import StartState, start_state
from forecast.runs.run import CONFIG, Run
from forecast.runs.settings import Settings
from forecast.training.checkpoint_content import newest_state
from forecast.training.fit import fit
from forecast.training.outcome import log_figures, write_outcome
from forecast.training.parallel.workers import Shutdown, Workers
from forecast.training.prepare import Preparation, prepare
from forecast.training.start import Interruption, announce_data, announce_scoring, announce_start, run_folder
from forecast.training.tensorboard.logger import check_logger, log_end, log_start, make_logger


def train(
    config: Mapping[str, Any] | Settings, *, folder: Path | None = None, overrides: Sequence[str] | None = None
) -> tuple[Run, dict[str, Any]]:
    """Train one model and return its run folder and the content of its `result.json`.

    A finished run is not run again: its result is read.

    Parameters
    ----------
    config
        The composed configuration as plain values, or its settings.
    folder
        The folder of the run: made, or resumed if it holds this run. None: a new one under `output_dir`,
        or what `resume` says.
    overrides
        The words of the command line that `config` was composed from. They separate explicit choices from
        defaults, which `resume=<folder>` needs.

    Raises
    ------
    InputError
        If the configuration or the data cannot be used; nothing has been written then.
    NotFiniteError
        If a loss or gradient is not finite.
    Interrupted
        If a signal ended the training: what is saved, and how to resume.
    NotEnoughMemory
        With the options to make smaller.
    ProcessFailed
        If another process of the run failed.
    """
    settings = config if isinstance(config, Settings) else Settings.parse(config)
    interruption = Interruption(settings)
    starting = start_state(settings, folder=folder, overrides=overrides)
    with interruption.explained(), Workers() as workers, starting as start:
        if start.result is not None:
            assert start.run is not None
            print(f"{start.run.path}: finished before, nothing is left to do")
            return start.run, start.result
        interruption.watch(start.run, start.settings)
        commit()  # of the code that this process has read, whatever is committed while it trains
        group = workers.assemble(start.settings.trainer)
        check_logger(start.settings.logger)
        prepared = prepare(start.settings, group, before_maps=partial(announce_data, start.settings))
        with run_folder(start, folder, prepared.settings) as run:
            interruption.watch(run, start.settings)
            return run, _train_in(run, prepared, start, workers)


def _train_in(run: Run, prepared: Preparation, start: StartState, workers: Workers) -> dict[str, Any]:
    """Fit, score, and write the outcome into the run folder."""
    settings, data, network, group = prepared.settings, prepared.data, prepared.network, workers.group
    resumed = newest_state(run, prepared.task, prepared.callbacks, len(data.parts["validation"]))
    logger = make_logger(settings.logger, str(run.path), purge_step=0 if resumed is None else resumed["step"])
    if resumed is None:
        run.clear()
    write_sealed(run.path / CONFIG, settings.plain)
    announce_start(prepared, run, resumed, group)
    log_start(logger, settings.plain)
    maps = prepared.maps.to("cpu")  # every process has a device of its own
    work = Work(settings, maps, data.address, run, resumed, start.restart_hint)
    group.hand_out(work)

    fitted = fit(prepared, run.checkpoints, logger, group=group, **work.resuming())
    announce_scoring(prepared, group)
    rows = score(network.to(prepared.device).eval(), data, prepared.maps.baseline, group)
    workers.release()
    fitted = log_figures(logger, fitted, network, data, rows)
    result = write_outcome(run, prepared, rows, fitted, processes=group.size)
    log_end(logger, result)
    run.close(prepared.architecture, data.manifest())
    return result


@dataclass(frozen=True)
class Work:
    """Work that the leading process hands out to the others of its run; they read their own data."""

    settings: Settings
    maps: LinearMaps
    table: Address | None
    run: Run
    resumed: dict[str, Any] | None
    restart_hint: str

    def resuming(self) -> dict[str, Any]:
        """Return the arguments of `fit` that say where it starts and how to resume it."""
        return {
            "resumed": self.resumed,
            "restart_hint": self.restart_hint,
            "resume_hint": resume_words(self.run.path, self.settings.plain["data"]),
        }


def run_worker(place: Place) -> None:
    """Train beside the leading process, which alone writes and prints, until the last window is scored."""
    group = Group(place)
    group.connect()
    work: Work | Shutdown = group.hand_out()
    if isinstance(work, Shutdown):
        raise SystemExit(int(work.failed))
    beside_it = place.rank < place.local_size  # on the machine of the process that leads
    prepared = prepare(work.settings, group, work.maps, work.table if beside_it else None)
    with suppress(Interrupted):  # the one that leads has saved the step, and says so
        fit(prepared, work.run.checkpoints, DummyLogger(), group=group, **work.resuming())
        score(prepared.network.to(prepared.device).eval(), prepared.data, prepared.maps.baseline, group)
    group.close()  # not after a fault: the others would notice before this process has said what it was
