"""Shared fixture: sums that are short."""

import pytest

from forecast.check import exactness


@pytest.fixture
def short_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sum over 300 positions in the check of long sums, which takes most of the time of all checks."""
    monkeypatch.setattr(exactness, "LONG", 300)
