"""The words of a sweep on Hydra's command line."""

import hashlib
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
from forecast.common.configuration import COMPLAINTS, check_hydra_words, one_line
from forecast.common.errors import InputError
from forecast.data.flaws import value_word

LONGEST = 100
"""Most characters of a name; file systems allow 255 bytes, and files beside it have longer names."""

NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
"""Pattern of a name."""

LAUNCHER = ("hydra/launcher", "hydra.launcher.")
"""Words about how jobs are run, which say nothing about what they are."""


def parse(words: Iterable[str]) -> list[Override]:
    """Return the overrides in the words of a command line."""
    return OverridesParser.create().parse_overrides(list(words))


def canonical(override: Override) -> str:
    """Return the canonical spelling of an override that sweeps nothing."""
    return f"{override.get_key_element()}={override.get_value_element_as_str()}"


def sweep_name(words: Iterable[str]) -> str:
    """Return a name that is the same for the same words in any order and with any launcher."""
    kept = [word for word in words if not word.startswith((*LAUNCHER, "sweep."))]
    return f"sweep-{_hash(sorted(kept))}"


def swept_words(words: Iterable[str], constants: Collection[str]) -> list[str]:
    """Return the overrides of a job that not all jobs of its sweep share, sorted, the seed last."""
    found = [override for override in parse(words) if canonical(override) not in constants]
    return [canonical(override) for override in in_order(found)]


def in_order(overrides: Iterable[Override]) -> list[Override]:
    """Return the overrides sorted, the seed last."""
    return sorted(overrides, key=lambda each: (is_seed(each), canonical(each)))


def is_seed(override: Override) -> bool:
    """Return whether the override is about the seed of the run."""
    return bool(override.key_or_group == "seed")


def job_name(words: Sequence[str]) -> str:
    """Return the name of the job with these words, such as attention-full_seed-1.

    A short hash follows if a letter had to be replaced or the name cut, so that no two jobs share a name.
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
    return value if isinstance(value, str) else str(override.get_value_element_as_str()).lower()


def _hash(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]


TABLE_ENDS = (".csv", ".gz", ".parquet", ".pq", ".tsv", ".txt", ".xlsx")
"""Endings of the names of table files."""

REFUSED = {
    "experimental_rerun": "runs what is pickled in that file: give the command line of the run in its place",
    "config_path": "the configuration is conf/: add files of your own with --config-dir",
    "config_name": "the configuration is conf/config.yaml: add files of your own with --config-dir",
}
"""Options of Hydra that are refused, and why."""


def read_command_line() -> Namespace:
    """Return the command line as Hydra's parser reads it, with overrides at any place."""
    arguments = get_args_parser().parse_intermixed_args()
    for name, said in REFUSED.items():
        if (value := getattr(arguments, name)) is not None:
            raise InputError(f"--{name.replace('_', '-')} {value}: {said}")
    check_hydra_words(arguments.overrides)
    check_words(arguments.overrides)
    put_overrides(arguments, arguments.overrides)
    if arguments.help or arguments.hydra_help:
        return arguments
    asked = {name: getattr(arguments, name) for name in ("run", "multirun", "cfg", "shell_completion", "info")}
    given = [f"--{name.replace('_', '-')}" for name, value in asked.items() if value]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)}: give one of them")
    if arguments.resolve and not arguments.cfg:
        raise InputError("--resolve: is about what --cfg shows: give both, or neither")
    if arguments.config_dir and not Path(arguments.config_dir).is_dir():
        raise InputError(f"--config-dir {arguments.config_dir}: no such folder: choose another")
    return arguments


def check_words(words: Sequence[str]) -> None:
    """Refuse a file in place of a data set, and a folder with a comma left over from a list."""
    for word in words:
        key, _, value = word.partition("=")
        value = value.strip("'\"")
        if key == "data" and ("/" in value or value.lower().endswith(TABLE_ENDS)):
            meant = shlex.quote(value_word("data.path", value.replace("\\", "")))
            raise InputError(f"{word}: data= takes a set of conf/data: your own file is data=csv {meant}")
        if key == "resume" and value.endswith(","):
            raise InputError(f"{word}: ends in a comma: leave it out, resume={shlex.quote(value.rstrip(','))}")


def put_overrides(arguments: Namespace, words: Sequence[str]) -> None:
    """Have Hydra, which reads `sys.argv`, take these overrides in place of the given ones.

    They come first, all together: Hydra's parser does not take them on both sides of an option.
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
def own_file_of_a_folder(arguments: Namespace) -> Iterator[None]:
    """Have Hydra compose `resume=<folder> data.path=…`, a key that the default data lack; then restore the words."""
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


def sweep_configuration(arguments: Namespace) -> DictConfig | None:
    """Return the configuration of `compose_first` if jobs are asked for, by -m or by the configuration itself."""
    if any(getattr(arguments, name) for name in ("help", "hydra_help", "cfg", "shell_completion", "info")):
        return None
    try:
        check_choices(arguments.overrides)
        config = compose_first(arguments, arguments.overrides)
    except COMPLAINTS as error:
        line = one_line(error)  # which raises what a signal did
        if arguments.multirun:
            raise InputError(line) from None
        return None  # Hydra says it again where the one run is composed
    mode = config.hydra.mode
    if arguments.multirun and mode == RunMode.RUN:
        raise InputError("hydra.mode=RUN: is one run, and -m asks for several: leave one of them out")
    if not arguments.multirun and mode != RunMode.MULTIRUN:
        return None
    for part in ("launcher", "sweeper"):
        name = str(OmegaConf.select(config, f"hydra.{part}._target_"))
        if not Plugins.is_in_toplevel_plugins_module(name):
            raise InputError(f"hydra.{part}._target_={name}: is no {part} of Hydra: choose one with hydra/{part}")
    return config


def check_choices(words: Sequence[str]) -> None:
    """Refuse a number or a truth value as a group's choice, where Hydra ends with a traceback, and a base file."""
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
    """Return the configuration of the words, each swept word at its first value."""
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


def for_multirun(arguments: Namespace, words: Sequence[str]) -> list[str]:
    """Return the words in the form that a multirun of Hydra takes.

    Hydra composes them once without what is swept, and there refuses an override of a key that only a swept group has,
    as in data=etth1,etth2 data.sha256=null. Such a word becomes ++data.sha256=null.
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
        one_line(error)  # which raises what a signal did
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


def count_jobs(config: DictConfig, words: Sequence[str]) -> int | None:
    """Return the number of jobs of a sweep over all values, None if only the sweep itself finds it out.

    `config`, from `compose_first`, may sweep values of its own; the last of `words` about a key counts.
    """
    sweeper = config.hydra.sweeper
    if not str(sweeper.get("_target_", "")).endswith(".BasicSweeper"):
        return None
    own = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
    last = {override.get_key_element(): override for override in parse([*own, *words])}.values()
    if any(each.value_type == ValueType.GLOB_CHOICE_SWEEP for each in last):  # its values are files of conf/
        return None
    return prod(len(list(each.sweep_string_iterator())) for each in last if each.is_discrete_sweep())
