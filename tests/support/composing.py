"""Hydra's configuration files, parsed once in this process: parsing is half the time of composing a configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource


@contextmanager
def parsed_once() -> Iterator[None]:
    """Parse a configuration file again only if it has changed; each composition gets a copy of its own."""
    parsed: dict[Any, ConfigResult] = {}
    parse = ConfigRepository.load_config

    def load_config(self: ConfigRepository, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or source.scheme() not in ("file", "pkg"):
            return parse(self, config_path)
        key = (source.scheme(), source.provider, source.path, config_path, _state(source, config_path))
        if key not in parsed:
            parsed[key] = parse(self, config_path)
        result = parsed[key]
        return replace(result, config=deepcopy(result.config))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConfigRepository, "load_config", load_config)
        yield


def _state(source: ConfigSource, config_path: str) -> tuple[int, ...]:
    """Return what changes with the content of a file; the files of Hydra's own package do not change."""
    if source.scheme() == "pkg":
        return ()
    found = Path(source.path, source._normalize_file_name(config_path)).stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
