"""One service for all tests: a model of a table, and one of a long table with known columns."""

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
    from tests.support.service import serving

    models = [Served.load("hours", str(tiny_run.path)), Served.load("stores", str(panel_run.path))]
    with serving(models) as client:
        yield client
