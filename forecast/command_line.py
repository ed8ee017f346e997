"""The command line of training, in Hydra's grammar: one run, or with -m the jobs of a sweep."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli import finish
from forecast.configuration import COMPLAINTS, check_trial, one_line, plain_values
from forecast.errors import InputError
from forecast.folders import configuration_folder
from forecast.hydra_words import read_command_line, sweep_configuration
from forecast.parallel.place import started_place
from forecast.sweep import run_sweep
from forecast.table import print_next_commands, print_table
from forecast.training import follow, train


def main() -> None:
    """Train as the command line says and exit."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, and the exit code is ours
    sys.exit(finish(_run))


def _run() -> None:
    arguments = read_command_line()
    if (config := sweep_configuration(arguments)) is not None:
        run_sweep(arguments, config, call=_compose_and_call)
        return
    composed: list[tuple[DictConfig, list[str]]] = []
    _compose_and_call(lambda config: composed.append((config, list(HydraConfig.get().overrides.task))))
    for config, overrides in composed:  # none where Hydra only answered a question, as to --help
        _train_and_print(config, overrides)


def _compose_and_call(job: Callable[[DictConfig], Any]) -> None:
    """Let Hydra compose what the command line says and call `job` with it, once for each job of a sweep."""
    try:
        hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(job)()
    except COMPLAINTS as error:
        raise InputError(one_line(error)) from None


def _train_and_print(config: DictConfig, overrides: Sequence[str]) -> None:
    for word in overrides:
        if word.lstrip("+~").startswith("sweep."):
            raise InputError(f"{word}: is about the jobs of a sweep: add -m, or leave it out")
    place = started_place(os.environ)
    if place is not None and place.rank > 0:
        follow(place)
        return
    plain = plain_values(config)
    check_trial(plain, overrides)
    run, result = train(plain, overrides=overrides)
    print_table(result)
    print_next_commands(run, result)
