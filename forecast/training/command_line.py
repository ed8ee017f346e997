"""The command line of training, in Hydra's grammar: one run, the jobs of a sweep with -m, or the help.

Modules that import torch are imported where they are used: the help and most refusals do without.
"""

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import hydra
from omegaconf import DictConfig, OmegaConf

from forecast.common.cli import finish, naming_what_to_make_smaller
from forecast.common.conf_files import choice_files, configuration_folder
from forecast.common.configuration import COMPLAINTS, check_places, check_trial, one_line, plain_values
from forecast.common.errors import InputError
from forecast.common.files import look_up
from forecast.common.place import started_place
from forecast.training.sweep.overrides import (
    allow_data_path_on_resume,
    compose_first,
    first_configuration,
    read_command_line,
    without_hydra,
)

if TYPE_CHECKING:
    from forecast.data.sources import Source
    from forecast.runs.settings import Settings


def main() -> None:
    """Run the command line and exit."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, and the exit code is ours
    sys.exit(finish(_run))


def _run() -> None:
    arguments = read_command_line()
    if arguments.help:
        print(_help(arguments))
        return
    config, seeds = first_configuration(arguments) or (None, None)
    if config is not None and seeds is not None:
        from forecast.training.sweep.sweep import run_sweep

        run_sweep(arguments, config, call=_compose_and_call, ensemble=seeds)
        return
    typed = [word for word in arguments.overrides if not word.lstrip("+~").startswith(("hydra.", "hydra/"))]
    composed = [] if config is None else [without_hydra(config)]
    if config is None:
        with allow_data_path_on_resume(arguments):
            _compose_and_call(composed.append)
    for single in composed:  # empty if Hydra only printed something, as for --cfg
        _train_and_print(single, typed)


def _help(arguments: Namespace) -> str:
    try:
        return help_text(compose_first(arguments, arguments.overrides))
    except COMPLAINTS as error:
        raise InputError(one_line(error, arguments.overrides)) from None


def _compose_and_call(job: Callable[[DictConfig], Any]) -> None:
    """Let Hydra compose the configuration, and call `job` with it once for each job of a sweep."""
    try:
        hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(job)()
    except COMPLAINTS as error:
        raise InputError(one_line(error, sys.argv[1:])) from None


def _train_and_print(config: DictConfig, overrides: Sequence[str]) -> None:
    for word in overrides:
        if word.lstrip("+~").startswith("sweep."):
            raise InputError(f"{word}: is an option of sweeps: add -m, or leave it out")
    place = started_place(os.environ)
    if place is not None and place.rank > 0:
        from forecast.training.train import run_worker

        run_worker(place)
        return
    plain = plain_values(config)
    check_trial(plain, overrides)
    check_places(config, overrides)
    if plain["start_from"] is not None:
        from forecast.training.start_from import with_run

        plain = with_run(plain, overrides)
    settings, source = _first_look(plain, alone=place is None)
    from forecast.runs.summary import print_closing_lines, print_table
    from forecast.training.train import train

    run, result = train(settings, overrides=overrides, source=source)
    print_table(result)
    print_closing_lines(run, result)


def _first_look(plain: dict[str, Any], *, alone: bool) -> "tuple[Settings, Source | None]":
    """Return the checked settings, and the series of a new run in a single process.

    A faulty option or table is refused here, before the seconds that torch and Lightning take to import.
    """
    from forecast.runs.settings import Settings, follow_table

    settings = Settings.parse(plain)
    if settings.resume or not alone:
        return settings, None
    from forecast.data.sources import load_source
    from forecast.data.split import too_few_rows

    def too_few(rows: int) -> str | None:
        if settings.context_length is None or settings.horizon is None:  # they follow from the table
            return None
        return too_few_rows(rows, settings.data.split, settings.context_length, settings.horizon)

    with naming_what_to_make_smaller(plain):
        return follow_table(settings, load_source(settings.data, too_few))


EXAMPLES = {
    "python train.py": "simulated data, one to three minutes on two cores",
    "python train.py data=csv data.path=my.csv horizon=48": "your own table, 48 rows ahead",
    "python train.py resume=auto": "continue the newest run of this configuration",
    "python train.py -m attention=full,probsparse data=etth1 seed=1,2": "a sweep: four jobs, a table and a report",
}
"""Commands, and the purpose of each."""

COMMON = {
    "data/csv.yaml": "path",
    "data/_file.yaml": "targets known_covariates",
    "config.yaml": "context_length horizon seed ensemble output_dir resume",
    "training/default.yaml": "max_epochs batch_size",
    "optimizer/adamw.yaml": "lr",
}
"""The options that the help shows, by the file with their comments."""

PLACES = {"decoder_attention": "attention, if the decoder's differs", "cross_attention": "attention"}
"""Places that take the choices of another group."""

WIDTH = 120
"""Largest number of characters in a line of the help's groups."""

HIDDEN = ("training", "callbacks")
"""Groups of a single choice."""


def help_text(config: DictConfig) -> str:
    """Return the help with the defaults of `config`; the meaning of an option is its comment in conf/."""
    width = max(len(command) for command in EXAMPLES)
    examples = [f"  {command:<{width}}  {purpose}" for command, purpose in EXAMPLES.items()]
    return "\n".join(
        [
            "Train, score and save one forecasting model; with -m, one for each combination of values (a sweep).",
            "Usage: python train.py [-m] [group=choice ...] [option=value ...]",
            "",
            "Examples:",
            *examples,
            "",
            "Groups and their choices (* is the default):",
            *_group_lines(),
            "",
            "Options used most (name, default, meaning; a step is a row of the table):",
            *_option_lines(config),
            "",
            "All options and their values:      python train.py --cfg job",
            "Time and memory before a training: python -m forecast.plan --help",
            "Hydra's own flags:                 python train.py --hydra-help",
        ]
    )


def groups() -> dict[str, list[str]]:
    """Return each group of `conf/` with its choices."""
    folders = sorted(folder for folder in configuration_folder().iterdir() if folder.is_dir())
    return {folder.name: [file.stem for file in choice_files(folder.name)] for folder in folders}


def _group_lines() -> list[str]:
    defaults = _defaults()
    lines = []
    for group, choices in groups().items():
        if group not in HIDDEN:
            marked = [f"*{choice}" if choice == defaults.get(group) else choice for choice in choices]
            lines += wrap(f"  {group:<27} {' '.join(marked)}", WIDTH, subsequent_indent=" " * 30)
    for place, other in PLACES.items():
        default = f"; default {defaults[place]}" if defaults[place] else ""
        lines.append(f"  {f'attention@{place}':<27} choices of {other}{default}")
    return lines


def _defaults() -> dict[str, Any]:
    """Return the choice of `config.yaml` for each group and each place of a group."""
    listed = OmegaConf.to_container(OmegaConf.load(configuration_folder() / "config.yaml"), resolve=False)
    assert isinstance(listed, dict)
    pairs = [pair for entry in listed["defaults"] if isinstance(entry, dict) for pair in entry.items()]
    return {str(name).rpartition("@")[2]: choice for name, choice in pairs}


def _option_lines(config: DictConfig) -> list[str]:
    composed = OmegaConf.to_container(config, resolve=False)
    lines = []
    for file, names in COMMON.items():
        path = configuration_folder() / file
        defaults = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
        group = "" if file == "config.yaml" else f"{path.parent.name}."
        for name in names.split():
            value = look_up(composed, f"{group}{name}")
            text = _value_text(look_up(defaults, name) if value is None else value)
            lines.append(f"  {group + name:<27} {text:<12} {comment(path, name)}")
    return lines


def comment(file: Path, name: str) -> str:
    """Return a file's comment on an option, empty if there is none."""
    last = name.rsplit(".", 1)[-1]
    indent = "  " * name.count(".")
    line = re.search(rf"^{indent}{last}:[^#\n]*?#\s*([^\n]*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return "" if line is None else line[1].strip()


def _value_text(value: Any) -> str:
    if value == "???":
        return "(no default)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
