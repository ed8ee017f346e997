"""Overrides of a sweep on Hydra's command line."""

import hashlib
import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from types import NoneType
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser  # the parser that hydra.main uses: there is no public one
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep, Override, OverrideType, ValueType
from hydra.core.plugins import Plugins
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from forecast.common.conf_files import choice_files, configuration_folder, listed
from forecast.common.configuration import COMPLAINTS, check_hydra_words, one_line, without_null
from forecast.common.errors import InputError
from forecast.common.files import ENDINGS
from forecast.tables.flaws import value_word

LONGEST = 100
"""Maximum characters of a name; file systems allow 255 bytes, and other files append to it."""

NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
"""Pattern of a name."""

NO_TRAINING = ("help", "hydra_help", "cfg", "shell_completion", "info")
"""Flags of commands that only print."""

SEEDS = ("seed", "ensemble")
"""Options that set the seeds of an ensemble."""

LAUNCHER = ("hydra/launcher", "hydra.launcher.")
"""Prefixes of overrides that change how jobs are run, not their results."""


def parse(words: Iterable[str]) -> list[Override]:
    """Return the parsed overrides of a command line."""
    return OverridesParser.create().parse_overrides(list(words))


def canonical(override: Override) -> str:
    """Return the canonical spelling of an override that sweeps nothing."""
    return f"{override.get_key_element()}={override.get_value_element_as_str()}"


def sweep_name(words: Iterable[str]) -> str:
    """Return a name that depends on the overrides, but not on their order or on the launcher."""
    named = [word for word in words if not word.startswith((*LAUNCHER, "sweep."))]
    return f"sweep-{_hash(sorted(named))}"


def swept_words(words: Iterable[str], constants: Collection[str]) -> list[str]:
    """Return the overrides of a job that differ within its sweep, sorted, the seed last."""
    swept = [override for override in parse(words) if canonical(override) not in constants]
    return [canonical(override) for override in in_order(swept)]


def in_order(overrides: Iterable[Override]) -> list[Override]:
    """Return the overrides sorted, the seed last."""
    return sorted(overrides, key=lambda override: (is_seed(override), canonical(override)))


def is_seed(override: Override) -> bool:
    """Return whether the override sets the seed."""
    return bool(override.key_or_group == "seed")


def job_name(words: Sequence[str]) -> str:
    """Return the name of the job with these overrides, such as attention-full_seed-1.

    If a character is replaced or the name is cut, a short hash is appended, so that names are unique.
    """
    overrides = parse(words)
    keys = [str(override.package or override.key_or_group) for override in overrides]
    short = [key.rpartition(".")[2] for key in keys]
    pieces = [
        f"{key if short.count(last) > 1 else last}-{_text(override)}"
        for key, last, override in zip(keys, short, overrides, strict=True)
    ]
    wanted = "_".join(pieces) or "job"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).lstrip("._-")
    if name == wanted and len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 9].rstrip('._-')}_{_hash(words)}"


def _text(override: Override) -> str:
    value = override.value()
    if value == []:  # a place without a choice
        return "null"
    return value if isinstance(value, str) else str(override.get_value_element_as_str()).lower()


def _hash(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


REFUSED = {
    "experimental_rerun": "executes a pickle file: type the command line of the run instead",
    "config_path": "the configuration is conf/: add files of your own with --config-dir",
    "config_name": "the configuration is conf/config.yaml: add files of your own with --config-dir",
}
"""Hydra options that are refused, with the reason."""


def read_command_line() -> Namespace:
    """Return the command line from Hydra's parser, with overrides at any position."""
    arguments, unknown = get_args_parser().parse_known_intermixed_args()
    if unknown:
        raise InputError(
            f"{unknown[0]}: no such flag: write an option as name=value without dashes, such as training.max_epochs=5; "
            "python train.py --help lists them"
        )
    for name, reason in REFUSED.items():
        if (value := getattr(arguments, name)) is not None:
            raise InputError(f"--{name.replace('_', '-')} {value}: {reason}")
    check_hydra_words(arguments.overrides)
    check_words(arguments.overrides)
    put_overrides(arguments, without_null(arguments.overrides))
    if arguments.help or arguments.hydra_help:
        return arguments
    modes = ("run", "multirun", "cfg", "shell_completion", "info")
    given = [f"--{name.replace('_', '-')}" for name in modes if getattr(arguments, name)]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)}: use only one of them")
    if arguments.resolve and not arguments.cfg:
        raise InputError("--resolve: works only with --cfg: use both or neither")
    if arguments.config_dir and not Path(arguments.config_dir).is_dir():
        raise InputError(f"--config-dir {arguments.config_dir}: no such folder: choose another")
    return arguments


def check_words(words: Sequence[str]) -> None:
    """Refuse a file name as a data set, and a folder with a trailing comma."""
    for word in words:
        key, _, value = word.partition("=")
        value = value.strip("'\"")
        if key == "data" and ("/" in value or value.lower().endswith(ENDINGS)):
            meant = shlex.quote(value_word("data.path", value.replace("\\", "")))
            raise InputError(f"{word}: data= takes the name of a file in conf/data: use data=csv {meant}")
        if key == "resume" and value.endswith(","):
            raise InputError(f"{word}: ends in a comma: use resume={shlex.quote(value.rstrip(','))}")


def put_overrides(arguments: Namespace, words: Sequence[str]) -> None:
    """Replace the overrides in `arguments` and in `sys.argv`, which Hydra reads.

    They come before the options: Hydra's parser does not accept them on both sides of an option.
    """
    old, options = list(arguments.overrides), []
    for word in sys.argv[1:]:
        if old and word == old[0]:
            old.pop(0)
        else:
            options.append(word)
    arguments.overrides = list(words)
    sys.argv[1:] = [*words, *options]


@contextmanager
def allow_data_path_on_resume(arguments: Namespace) -> Iterator[None]:
    """Let Hydra compose `resume=<folder> data.path=…`, a key that the default data lack; then restore the overrides."""
    words = list(arguments.overrides)
    given = dict(word.lstrip("+").partition("=")[::2] for word in words)
    folder = given.get("resume", "false").strip("'\"").lower() not in ("false", "auto")
    if not folder or "data.path" not in given or "data" in given:
        yield
        return
    typed = list(sys.argv)
    put_overrides(arguments, ["data=csv", *words])
    try:
        yield
    finally:
        sys.argv[:], arguments.overrides = typed, words


def first_configuration(arguments: Namespace) -> tuple[DictConfig, range | None] | None:
    """Return the configuration of `compose_first`, and the seeds of an ensemble, empty for another sweep.

    -m, the configuration or an ensemble requests several jobs; for a single run there are no seeds (None). The command
    line of an ensemble becomes that of a sweep over seeds. Return None if Hydra only prints something or complains.
    """
    if any(getattr(arguments, name) for name in NO_TRAINING):
        return None
    try:
        check_choices(arguments.overrides)
        config = compose_first(arguments, arguments.overrides)
        seeds = _spread_over_seeds(arguments, config)
        if seeds:
            config = compose_first(arguments, arguments.overrides)
    except COMPLAINTS as error:
        line = one_line(error, arguments.overrides)  # raises if a signal was the cause
        if arguments.multirun:
            raise InputError(line) from None
        return None  # Hydra repeats the error when it composes the single run
    mode = config.hydra.mode
    if arguments.multirun and mode == RunMode.RUN:
        several = f"ensemble={len(seeds)}" if seeds else "-m"
        raise InputError(f"hydra.mode=RUN: is a single run, but {several} requests several: leave one of them out")
    if not arguments.multirun and mode != RunMode.MULTIRUN:
        swept = any(override.is_sweep_override() for override in parse(arguments.overrides))
        return None if swept else (config, None)
    for part in ("launcher", "sweeper"):
        name = str(OmegaConf.select(config, f"hydra.{part}._target_"))
        if not Plugins.is_in_toplevel_plugins_module(name):
            raise InputError(f"hydra.{part}._target_={name}: is not a Hydra {part}: choose one with hydra/{part}")
    return config, seeds


def for_ray(config: DictConfig) -> list[str]:
    """Return the overrides by which the Ray launcher starts a cluster on this machine, also without a network.

    Raise InputError for jobs that need more CPUs than it has, for which Ray would wait for ever.
    """
    options = OmegaConf.select(config, "hydra.launcher.ray")
    if options is None or options.init.get("address") is not None:
        return []
    cpus, needed = options.init.get("num_cpus") or os.cpu_count() or 1, options.remote.get("num_cpus", 1)
    if needed > cpus:
        raise InputError(
            f"hydra.launcher.ray.remote.num_cpus={needed}: the cluster has {cpus}, and the jobs would wait for ever: "
            "lower it, or raise hydra.launcher.ray.init.num_cpus"
        )
    start = {"_node_ip_address": "127.0.0.1", "include_dashboard": "false"}
    return [f"+hydra.launcher.ray.init.{key}={value}" for key, value in start.items() if key not in options.init]


def _spread_over_seeds(arguments: Namespace, config: DictConfig) -> range:
    """Turn the command line of an ensemble, such as ensemble=5, into that of a sweep over seeds.

    Return the seeds, none if it is not one. `config` is composed from the command line.
    """
    members, seed = config.ensemble, config.seed
    if isinstance(members, bool) or not isinstance(members, int) or members < 1:
        raise InputError(f"ensemble={members}: must be a whole number of at least 1, the number of trainings")
    if members == 1:
        return range(0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"seed={seed}: must be a whole number, the first of ensemble={members}")
    overrides = parse(arguments.overrides)
    swept = [override.input_line for override in overrides if override.is_sweep_override()]
    if arguments.multirun or swept:
        raise InputError(f"{(*swept, '-m')[0]}: an ensemble is itself a sweep: leave it out, or ensemble={members}")
    if not is_grid(config) or config.hydra.sweeper.get("params"):
        raise InputError(
            f"ensemble={members}: an experiment or sweeper that varies options has no one mean: leave it out"
        )
    kept = [word for word, own in zip(arguments.overrides, overrides, strict=True) if own.key_or_group not in SEEDS]
    seeds = range(seed, seed + members)
    words = [*kept, "ensemble=1", f"seed={','.join(map(str, seeds))}"]
    if not config.sweep.name:
        words.append(f"sweep.name={sweep_name(words).replace('sweep', 'ensemble', 1)}")
    put_overrides(arguments, words)
    arguments.multirun = True
    sys.argv.append("-m")
    return seeds


def check_choices(words: Sequence[str]) -> None:
    """Refuse a number or a boolean as the choice of a group, where Hydra raises a traceback, and a base file."""
    groups = [folder.name for folder in configuration_folder().iterdir() if folder.is_dir()]
    for override in parse(words):
        group = override.key_or_group
        value: Any = override.value()  # a Glob too, unlike its annotation
        if isinstance(value, Glob):
            if bases := value.filter([file.stem for file in (configuration_folder() / group).glob("_*.yaml")]):
                raise InputError(
                    f"{override.input_line}: matches {bases[0]}, a base of other files and no choice: add exclude=_*, "
                    f"as in '{override.get_key_element()}=glob(*,exclude=_*)'"
                )
        elif group in groups and not (override.is_sweep_override() or isinstance(value, (str, list, dict, NoneType))):
            choices = [file.stem for file in choice_files(group)]
            raise InputError(f"{override.input_line}: no such choice: choose {listed(choices)}")


def compose_first(arguments: Namespace, words: Sequence[str]) -> DictConfig:
    """Return the configuration of the overrides, with each swept override at its first value."""
    if arguments.config_dir:
        words = [*words, f"hydra.searchpath=['file://{Path(arguments.config_dir).resolve()}']"]
    with initialize_config_dir(version_base="1.3", config_dir=str(configuration_folder())):
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        firsts = [_first(override) for override in parser.parse_overrides(list(words))]
        known = [word for word in firsts if word is not None]
        config = compose("config", known, return_hydra_config=True)
    OmegaConf.set_struct(config, False)
    OmegaConf.set_readonly(config, False)
    return config


def without_hydra(config: DictConfig) -> DictConfig:
    """Return the configuration of a run, without that of Hydra."""
    copy = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    assert isinstance(copy, DictConfig)
    return copy


def for_multirun(arguments: Namespace, words: Sequence[str]) -> list[str]:
    """Return the overrides in the form that a Hydra multirun accepts.

    Hydra first composes them without the swept ones. It then refuses an override of a key that only a swept group has,
    as in data=etth1,etth2 data.sha256=null. That override becomes ++data.sha256=null.
    """
    overrides = parse(words)
    constants = [override for override in overrides if not override.is_sweep_override()]
    if _composes(arguments, constants):
        return list(words)
    groups = [override for override in constants if "." not in override.key_or_group]
    return [
        f"++{word}" if _changes(override) and not _composes(arguments, [*groups, override]) else word
        for word, override in zip(words, overrides, strict=True)
    ]


def _changes(override: Override) -> bool:
    plain = override.type == OverrideType.CHANGE and not override.is_sweep_override()
    return plain and "." in override.key_or_group and not override.is_hydra_override()


def _composes(arguments: Namespace, overrides: Sequence[Override]) -> bool:
    try:
        compose_first(arguments, [str(override.input_line) for override in overrides])
    except COMPLAINTS as error:
        one_line(error)  # raises if a signal was the cause
        return False
    return True


def _first(override: Override) -> str | None:
    if not override.is_sweep_override():
        return str(override.input_line)
    value = override.value()
    if isinstance(value, IntervalSweep):
        return f"{override.get_key_element()}={value.start}"
    first = next(iter(override.sweep_string_iterator()), None)
    return None if first is None else f"{override.get_key_element()}={first}"


def is_grid(config: DictConfig) -> bool:
    """Return whether Hydra's basic sweeper chooses the jobs: every combination of the values."""
    return str(config.hydra.sweeper.get("_target_", "")).endswith(".BasicSweeper")


def count_jobs(config: DictConfig, words: Sequence[str]) -> int | None:
    """Return the number of jobs of a grid sweep, None if it is unknown before the sweep.

    `config`, from `compose_first`, may itself sweep values. The last override of a key wins.
    """
    if not is_grid(config):
        return None
    params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    last = {override.get_key_element(): override for override in parse([*params, *words])}.values()
    if any(override.value_type == ValueType.GLOB_CHOICE_SWEEP for override in last):  # its values are files of conf/
        return None
    return prod(len(list(override.sweep_string_iterator())) for override in last if override.is_discrete_sweep())
