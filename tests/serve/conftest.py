"""One service for all tests: a model of a table, one of a long table with known columns, and the one of the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import TinyRun
    from tests.support.service import Client


@pytest.fixture(scope="package")  # it ends before tests of other parts
def service(tiny_run: TinyRun, panel_run: TinyRun) -> Iterator[Client]:
    from forecast.serve.served import Served
    from forecast.serve.untrained import Untrained
    from tests.support.service import serving

    models = [Served.load("hours", str(tiny_run.path)), Served.load("stores", str(panel_run.path))]
    with serving([*models, Untrained.load("untrained")]) as client:
        yield client
