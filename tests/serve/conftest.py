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
    from forecast.serve.untrained import load
    from tests.support.service import serving

    runs = {"hours": str(tiny_run.path), "stores": str(panel_run.path), "untrained": "pretrained"}
    with serving([load(name, run) for name, run in runs.items()]) as client:
        yield client
