"""From a configuration to a finished run folder: seed, data, model, fit, test on the best, result."""

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
import lightning
import torch
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from forecast.baselines import Ridge, fit_ridge
from forecast.callbacks.configured import configured
from forecast.cli import finish
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
from forecast.run import CONFIG, Architecture, Run
from forecast.run_logger import check_logger, log_end, log_start, make_logger
from forecast.scoring import score
from forecast.settings import choose_device, read_root, read_training
from forecast.table import print_next_commands, print_table
from forecast.task import ForecastTask


def train(config: Mapping[str, Any]) -> tuple[Run, dict[str, Any]]:
    """Train one model as `config` says and give its run folder and the content of its `result.json`.

    Parameters
    ----------
    config
        Plain values, the composed configuration.

    Raises
    ------
    InputError
        If the configuration or the data cannot be used; nothing has been written then.
    NotFiniteError
        If a loss or gradient is not finite.
    """
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
    run = Run.create(Path(root.output_dir), str(config["data"]["name"]))
    config = {**config, "training": {**config["training"], "precision": precision}}
    write_json(run.path / CONFIG, config)
    _introduce(config, data, network, task, ridge, run)
    logger = make_logger(config["logger"], str(run.path))
    log_start(logger, config)
    outcome = fit(
        task,
        data,
        run.path,
        settings=settings,
        precision=precision,
        device=device,
        trainer_options=config["trainer"],
        callbacks=callbacks,
        logger=logger,
        start_is_candidate=from_ridge,
    )
    rows = score(network.to(device).eval(), data, ridge)
    result = write_outcome(run, config, data, architecture, network, rows, ridge, outcome, precision, device)
    log_end(logger, result, rows)
    return run, result


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
    config: Mapping[str, Any], data: ForecastData, network: Informer, task: ForecastTask, ridge: Ridge, run: Run
) -> None:
    for note in data.source.series.notes:
        print(f"{config['data']['name']}: {note}")
    windows = ", ".join(f"{len(part):,} {name}" for name, part in data.parts.items())
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{config['data']['name']}: {len(data.index):,} rows, {len(data.source.targets)} targets; windows: {windows}")
    print(f"{config['model']['name']}, attention {config['attention']['name']}: {parameters:,} parameters")
    print(f"linear baseline: look-back {ridge.look_back}, penalty {ridge.penalty:.2g}, 1 window in {ridge.every}")
    print(f"training: {task.total_steps:,} steps into {shlex.quote(str(run.path))}", flush=True)


def configuration_folder() -> Path:
    """Give the folder of the configuration: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def main() -> None:
    """Train as the command line says, in Hydra's grammar, and exit."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, and the exit code is ours
    sys.exit(finish(_compose_and_train))


def _compose_and_train() -> None:
    failures: list[Exception] = []

    def job(config: DictConfig) -> None:
        try:
            _train_and_print(config)
        except Exception as error:  # Hydra would print a line of its own; raised again below
            failures.append(error)

    try:
        entry = hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")
        entry(job)()
        if failures:
            raise failures[0]
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(_one_line(error)) from None


def _train_and_print(config: DictConfig) -> None:
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    run, result = train({str(key): value for key, value in plain.items()})
    print_table(result)
    print_next_commands(run, result)


def _one_line(error: Exception) -> str:
    """Give Hydra's complaint without what speaks of its own insides."""
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is not given: set {error.full_key}=…, as in data=csv data.path=my.csv"
    message = " ".join(str(error).split("Config search path")[0].split())
    message = re.sub(r"To append to your config use .*", "No such option here: see the files of conf/", message)
    if type(error).__name__ == "OverrideParseException":
        message += "; a value with blanks, brackets, ~ or = is quoted twice: 'data.path=\"my file [1].csv\"'"
    return message


if __name__ == "__main__":
    main()
