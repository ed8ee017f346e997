"""From a configuration to a finished run folder: seed, data, model, fit, test on the best, result."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning
import torch
from hydra.utils import instantiate

from forecast.baselines import Ridge, fit_ridge
from forecast.callbacks.configured import configured
from forecast.claim import claimed
from forecast.data.datamodule import ForecastData
from forecast.data.sources import load_source
from forecast.errors import InputError
from forecast.files import write_json
from forecast.fitting import fit
from forecast.losses import loss_by_name
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms
from forecast.outcome import write_outcome
from forecast.precision import choose_precision
from forecast.resume import Beginning, begin
from forecast.run import CONFIG, Architecture, Run
from forecast.run_logger import check_logger, log_end, log_start, make_logger
from forecast.scoring import score
from forecast.settings import choose_device, read_root, read_training
from forecast.task import ForecastTask


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
    """
    read_root(config)
    with begin(config, folder=folder, overrides=overrides) as beginning:
        if beginning.result is not None:
            assert beginning.run is not None
            print(f"{beginning.run.path}: finished before, nothing is left to do")
            return beginning.run, beginning.result
        return _train(beginning, folder)


def _train(beginning: Beginning, folder: Path | None) -> tuple[Run, dict[str, Any]]:
    config = beginning.config
    root, settings = read_root(config), read_training(config["training"])
    device = choose_device(config["trainer"])
    precision = choose_precision(settings.precision, device)
    loss_by_name(root.loss)
    lightning.seed_everything(root.seed, verbose=False)
    torch.backends.cudnn.allow_tf32 = False  # convolutions too are float32 where float32 is said
    data = ForecastData(
        load_source(config["data"]),
        config["data"]["split"],
        context_length=root.context_length,
        horizon=root.horizon,
        batch_size=settings.batch_size,
        evaluation_batch_size=settings.evaluation_batch_size,
        seed=root.seed,
    )
    architecture = _architecture(config, data)
    network = architecture.build()
    network.checkpoint_activations(settings.activation_checkpointing)
    data.to(device)
    ridge = fit_ridge(data.parts["train"], data.parts["validation"])
    from_ridge = _start_linear_path(network, architecture, ridge)
    task = ForecastTask(
        network,
        loss=root.loss,
        make_optimizer=instantiate(config["optimizer"], _partial_=True),
        make_scheduler=instantiate(config["scheduler"], _partial_=True),
        max_grad_norm=settings.max_grad_norm,
        linear_path_rate=settings.linear_path_rate,
        total_steps=settings.total_steps(len(data.parts["train"])),
        seed=root.seed,
    )
    task.configure_optimizers()  # what is out of its range is refused before there is a folder
    callbacks = configured(config["callbacks"])
    check_logger(config["logger"])
    config = {**config, "training": {**config["training"], "precision": precision}}
    with _folder(beginning, folder, config) as run:
        if beginning.checkpoint is None:
            run.clear()
        write_json(run.path / CONFIG, config)
        resumed = beginning.checkpoint
        _introduce(config, data, network, task, ridge, run, resumed)
        logger = make_logger(config["logger"], str(run.path), purge_step=0 if resumed is None else resumed["step"])
        log_start(logger, config)
        outcome = fit(
            task,
            data,
            run.checkpoints,
            settings=settings,
            precision=precision,
            device=device,
            trainer_options=config["trainer"],
            callbacks=callbacks,
            logger=logger,
            start_is_candidate=from_ridge,
            resumed=resumed,
        )
        rows = score(network.to(device).eval(), data, ridge)
        result = write_outcome(run, config, data, network, rows, ridge, outcome, precision, device)
        log_end(logger, result, rows)
        run.close(architecture, data.manifest())
    return run, result


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


def _architecture(config: Mapping[str, Any], data: ForecastData) -> Architecture:
    options = dict(config["model"])
    own = config["attention"]
    mechanisms = Mechanisms(
        encoder=own, decoder=config.get("decoder_attention") or own, cross=config["cross_attention"]
    )
    return Architecture(preset=options.pop("name"), options=options, mechanisms=mechanisms, sizes=data.sizes)


def _start_linear_path(network: Informer, architecture: Architecture, ridge: Ridge) -> bool:
    """Put the closed form in the linear path if that is asked for, and say whether it was."""
    if network.linear_path is None or architecture.options["linear_path"] != "ridge":
        return False
    network.linear_path.start_from(ridge.weight)
    return True


def _introduce(
    config: Mapping[str, Any],
    data: ForecastData,
    network: Informer,
    task: ForecastTask,
    ridge: Ridge,
    run: Run,
    resumed: Mapping[str, Any] | None,
) -> None:
    for note in data.notes:
        print(f"{config['data']['name']}: {note}")
    windows = ", ".join(f"{len(part):,} {name}" for name, part in data.parts.items())
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{config['data']['name']}: {len(data.index):,} rows, {len(data.source.targets)} targets; windows: {windows}")
    print(f"{config['model']['name']}, attention {config['attention']['name']}: {parameters:,} parameters")
    print(f"linear baseline: look-back {ridge.look_back}, penalty {ridge.penalty:.2g}, 1 window in {ridge.every}")
    done = "" if resumed is None else f", going on after step {resumed['step']:,}"
    print(f"training: {task.total_steps:,} steps into {shlex.quote(str(run.path))}{done}", flush=True)


def main() -> None:
    """Train as the command line says, in Hydra's grammar, and exit."""
    from forecast.command_line import main as command_line  # which imports this module

    command_line()


if __name__ == "__main__":
    main()
