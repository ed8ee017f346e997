"""Parts of Hydra's compositions that are equal each time, made once in this process.

A composition takes six times as long otherwise, and the suite makes more than a thousand.
"""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import astuple
from functools import cache
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

import pytest
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra.core.default_element import InputDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

T = TypeVar("T")

REPLACED = [
    (owner, name, getattr(owner, name))
    for owner, name in (
        (ConfigRepository, "load_config"),
        (CachingConfigRepository, "__init__"),
        (ConfigLoaderImpl, "_compose_config_from_defaults_list"),
        (defaults_list, "_create_interpolation_map"),
        (OverridesParser, "parse_rule"),
    )
]
"""What `parts_kept` replaces: owner, name and Hydra's own function."""


class _Unpickler(pickle.Unpickler):
    """Unpickler without the event that tests of attacks wait for."""

    @staticmethod
    @cache
    def find_class(module: str, name: str) -> Any:
        return attrgetter(name)(resolve_name(module))


class Latest(Generic[T]):
    """The values of a function that were used last, by key, as pickles: garbage collection does not read these."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a copy of the value of the key, made if it is not kept; an error of `make` is raised."""
        if key not in self._values:
            self._values[key] = pickle.dumps(make())
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        value: T = _Unpickler(io.BytesIO(self._values[key])).load()
        return value


def place_of(repository: ConfigRepository, path: str) -> Hashable:
    """Return where a configuration comes from and what changes with its content; None if there is none."""
    source = repository._find_object_source(path, ObjectType.CONFIG)
    if source is None:
        return None
    state: Hashable = None  # configurations in packages and in Hydra's store do not change
    if source.scheme() == "file":
        found = Path(source.path, source._normalize_file_name(path)).stat()
        state = found.st_ino, found.st_mtime_ns, found.st_size
    return source.scheme(), source.provider, source.path, path, state


@contextmanager
def parts_kept() -> Iterator[None]:
    """Keep the files, parsed overrides and merged lists of files that were used last; a composition gets copies.

    The choices for interpolations in a defaults list are collected only if it has one.
    """
    load, _, merge, choices, parse = (function for _, _, function in REPLACED)
    files: Latest[ConfigResult | None] = Latest(500)
    merged: Latest[DictConfig] = Latest(500)
    overrides: Latest[Override] = Latest(500)

    def load_config(self: ConfigRepository, config_path: str) -> ConfigResult | None:
        place = place_of(self, config_path)
        return load(self, config_path) if place is None else files.get(place, lambda: load(self, config_path))

    def copy_repository(self: CachingConfigRepository, delegate: IConfigRepository) -> None:
        self.delegate = copy(delegate)  # a change of its search path gives it another list of sources
        self.cache = {}

    def compose_config(self: ConfigLoaderImpl, defaults: list[ResultDefault], repo: Any) -> DictConfig:
        key = tuple((*astuple(default), place_of(repo.delegate, str(default.config_path))) for default in defaults)
        return merged.get(key, lambda: merge(self, defaults, repo))

    def choices_if_used(known: Any, defaults: list[InputDefault], self_added: bool) -> DictConfig | None:
        return choices(known, defaults, self_added) if any(one.is_interpolation() for one in defaults) else None

    def parse_rule(self: OverridesParser, s: str, rule_name: str) -> Any:
        return (
            overrides.get(s, lambda: parse(self, s, rule_name))
            if rule_name == "override"
            else parse(self, s, rule_name)
        )

    ours = (load_config, copy_repository, compose_config, choices_if_used, parse_rule)
    with pytest.MonkeyPatch.context() as patch:
        for (owner, name, _), function in zip(REPLACED, ours, strict=True):
            patch.setattr(owner, name, function)
        yield


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Compose as Hydra does, inside `parts_kept`."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, function in REPLACED:
            patch.setattr(owner, name, function)
        yield
