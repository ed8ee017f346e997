"""The command line of training, in Hydra's grammar: one run, or with -m the jobs of a sweep."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import hydra
from omegaconf import DictConfig

from forecast.common.cli import finish
from forecast.common.conf_files import configuration_folder
from forecast.common.configuration import COMPLAINTS, check_trial, one_line, plain_values
from forecast.common.errors import InputError
from forecast.common.place import started_place
from forecast.runs.summary import print_next_commands, print_table
from forecast.training.options_help import help_text
from forecast.training.sweep.overrides import (
    compose_first,
    own_file_of_a_folder,
    read_command_line,
    sweep_configuration,
)
from forecast.training.sweep.sweep import run_sweep
from forecast.training.train import run_worker, train


def main() -> None:
    """Train as the command line says and exit."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, and the exit code is ours
    sys.exit(finish(_run))


def _run() -> None:
    arguments = read_command_line()
    if arguments.help:
        print(_help(arguments))
        return
    if (config := sweep_configuration(arguments)) is not None:
        run_sweep(arguments, config, call=_compose_and_call)
        return
    composed: list[DictConfig] = []
    typed = [word for word in arguments.overrides if not word.lstrip("+~").startswith(("hydra.", "hydra/"))]
    with own_file_of_a_folder(arguments):
        _compose_and_call(composed.append)
    for config in composed:  # none where Hydra only answered a question, as to --cfg
        _train_and_print(config, typed)


def _help(arguments: Namespace) -> str:
    try:
        return help_text(compose_first(arguments, arguments.overrides))
    except COMPLAINTS as error:
        raise InputError(one_line(error)) from None


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
        run_worker(place)
        return
    plain = plain_values(config)
    check_trial(plain, overrides)
    run, result = train(plain, overrides=overrides)
    print_table(result)
    print_next_commands(run, result)
