"""One training run, from a configuration to a finished run folder: prepare, fit, score, write the results."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import DummyLogger

from forecast.common.errors import InputError, Interrupted
from forecast.common.files import write_sealed
from forecast.common.group import Group
from forecast.common.place import Place
from forecast.common.progress import say
from forecast.data.mapped import Address
from forecast.data.sources import Source, load_source, resume_words
from forecast.evaluation.baselines import REQUESTED
from forecast.evaluation.evaluate import Row
from forecast.evaluation.linear_maps import LinearMaps
from forecast.evaluation.scoring import limits_of_data, score
from forecast.runs.results import commit, forecast_facts
from forecast.runs.resume import StartState, start_state
from forecast.runs.run import CONFIG, Run
from forecast.runs.settings import Settings, follow_table
from forecast.training.checkpoint_content import newest_state
from forecast.training.fit import Fit, check_resumed, fit, held_out_selection
from forecast.training.outcome import log_figures, write_outcome
from forecast.training.parallel.workers import Shutdown, Workers
from forecast.training.prepare import Preparation, prepare
from forecast.training.start import Interruption, announce_data, announce_scoring, announce_start, run_folder
from forecast.training.tensorboard.logger import check_logger, log_end, log_start, make_loggers


def train(
    config: Mapping[str, Any] | Settings,
    *,
    folder: Path | None = None,
    overrides: Sequence[str] | None = None,
    announced: set[str] | None = None,
    source: Source | None = None,
) -> tuple[Run, dict[str, Any]]:
    """Train one model and return its run folder and the content of its `result.json`.

    A finished run is not trained again: its result is read from the folder.

    Parameters
    ----------
    config
        The composed configuration as plain values, or the parsed settings.
    folder
        The run folder. It is created, or resumed if it already holds this run. None: a new folder under
        `output_dir`, or the folder that the option `resume` selects.
    overrides
        The command-line words from which `config` was composed. They tell explicit choices from defaults, which
        `resume=<folder>` needs.
    announced
        Lines on the data that earlier trainings printed. They are not repeated, and new ones are added.
    source
        The series of `config`, if it has been read already.

    Raises
    ------
    InputError
        If the configuration or the data cannot be used. Nothing has been written then.
    NotFiniteError
        If a loss or gradient is not finite.
    Interrupted
        If a signal ended the training. The message says what is saved and how to resume.
    NotEnoughMemory
        If memory runs out. The message names the options to lower.
    ProcessFailed
        If another process of the run failed.
    """
    settings = config if isinstance(config, Settings) else Settings.parse(config)
    interruption = Interruption(settings)
    with ExitStack() as stack:
        stack.enter_context(interruption.explained())
        try:
            settings, source = follow_table(settings, source)
        except InputError:
            if settings.resume in (False, "auto"):
                raise  # else the folder names the ids of a long table, which the words need not
        workers = stack.enter_context(Workers())
        start = stack.enter_context(start_state(settings, folder=folder, overrides=overrides))
        if start.result is not None:
            assert start.run is not None
            say(f"{start.run.path}: already finished, nothing to do")
            return start.run, start.result
        interruption.settings, interruption.run = start.settings, start.run
        commit()  # read the commit now: it may change while the training runs
        group = workers.assemble(start.settings.trainer)
        check_logger(start.settings.logger)
        seen = set() if announced is None else announced
        announce = partial(announce_data, start.settings, seen)
        if source is None or start.settings.data != settings.data:
            source = load_source(start.settings.data)
        prepared = prepare(start.settings, source, group, before_linear_fit=announce)
        for name in start.settings.evaluation.baselines:
            REQUESTED[name].check(prepared.data)
        with run_folder(start, folder, prepared.settings) as run:
            interruption.run = run
            return run, _train_in(run, prepared, start, workers)


def _train_in(run: Run, prepared: Preparation, start: StartState, workers: Workers) -> dict[str, Any]:
    """Fit the model, score it, and write the results into the run folder."""
    settings, data, network, group = prepared.settings, prepared.data, prepared.network, workers.group
    selection = held_out_selection(prepared)
    callbacks = [*prepared.callbacks, *([] if selection is None else [selection])]
    resumed = newest_state(run, prepared.task, callbacks, len(data.parts["validation"]))
    if resumed is not None:  # before the first file is written
        check_resumed(prepared, resumed, run.path, start.restart_hint)
    loggers = make_loggers(settings.logger, str(run.path), purge_step=0 if resumed is None else resumed["step"])
    if resumed is None:
        run.clear()
    write_sealed(run.path / CONFIG, settings.plain)
    announce_start(prepared, run, resumed, group)
    log_start(loggers, settings.plain)
    linear_maps = prepared.linear_maps.to("cpu")  # each worker moves them to its own device
    assignment = Assignment(settings, linear_maps, data.address, run, resumed)
    group.hand_out(assignment)

    fitted = fit(prepared, run.checkpoints, loggers, group=group, **assignment.fit_options())
    announce_scoring(prepared, group)
    rows = score_run(prepared, fitted, group)
    workers.release()
    fitted = log_figures(loggers, fitted, network, data, rows)
    result = write_outcome(run, prepared, rows, fitted, processes=group.size)
    log_end(loggers, result)
    facts = forecast_facts(result, data.training_range(), limits_of_data(data, reads_known=network.reads_known))
    contract = data.contract(reads_known=network.reads_known).to_dict()
    run.seal({"architecture": asdict(prepared.architecture), **contract, **facts})
    return result


def score_run(prepared: Preparation, fitted: Fit, group: Group) -> dict[str, Row | None]:
    """Return the evaluations of each row of the result, from all processes of the group."""
    network, maps = prepared.network.to(prepared.device).eval(), prepared.linear_maps
    is_start = fitted.best_step == 0 and network.mixing_weight == 0
    return score(
        network,
        prepared.data,
        maps.baseline,
        group,
        fitted.held_out_blocks,
        maps.cross_fits if is_start else (),
        prepared.settings.evaluation.baselines,
    )


@dataclass(frozen=True)
class Assignment:
    """Message from the leading process to the workers of its run. Each worker reads the data itself."""

    settings: Settings
    linear_maps: LinearMaps
    table: Address | None
    run: Run
    resumed: dict[str, Any] | None

    def fit_options(self) -> dict[str, Any]:
        """Return the arguments of `fit` that say where to start and how to resume."""
        return {
            "resumed": self.resumed,
            "resume_hint": resume_words(self.run.path, self.settings.plain["data"]),
        }


def run_worker(place: Place) -> None:
    """Train and score together with the leading process, which alone prints and writes files."""
    group = Group(place)
    group.connect()
    assignment: Assignment | Shutdown = group.hand_out()
    if isinstance(assignment, Shutdown):
        raise SystemExit(int(assignment.failed))
    on_leading_machine = place.rank < place.local_size
    table = assignment.table if on_leading_machine else None
    source = load_source(assignment.settings.data)
    prepared = prepare(assignment.settings, source, group, assignment.linear_maps, table)
    with suppress(Interrupted):  # the leading process saves the step and prints the message
        fitted = fit(prepared, assignment.run.checkpoints, [DummyLogger()], group=group, **assignment.fit_options())
        score_run(prepared, fitted, group)
    group.close()  # skipped on an error, so that this process reports it before the others notice the lost connection
