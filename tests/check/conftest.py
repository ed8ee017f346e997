"""Shared fixtures: sums and counts over few positions, and one composition of the configuration."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forecast.check import costs, exactness
from forecast.common import configuration

COMPOSE = configuration.compose_words


@cache
def composed(words: tuple[str, ...], folder: Path) -> Any:
    return COMPOSE(words, folder)


@pytest.fixture(scope="module", autouse=True)
def compose_once() -> Iterator[None]:
    """Compose the arguments of a mechanism once for all commands, which saves a tenth of the time of its checks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configuration, "compose_words", lambda words, folder: composed(tuple(words), folder))
        yield


@pytest.fixture
def short_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sum over 300 positions, and count costs at 256 to 1,024: at more, these take most of the time of all checks."""
    monkeypatch.setattr(exactness, "LONG", 300)
    monkeypatch.setattr(costs, "LENGTHS", (256, 512, 1024))
