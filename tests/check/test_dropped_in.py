"""Two files add a mechanism: the check finds it by its folder, whatever it declares."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from forecast import attention
from forecast.attention import _parsing
from forecast.check.__main__ import main
from tests.support.small import ROOT

FILES = ROOT / "tests" / "support" / "dropped_in"
NOT_PROMISED = {
    "window": {"cross lengths", "order of keys", "shift of keys", "scale of keys", "scale of queries"},
    "cosine": {
        *("mask per query", "reach", "order of keys", "shift of keys", "scale of keys", "scale of queries"),
        "q = k = -20",
    },
}
"""The checks that do not apply to a sliding window, and to weights that may vanish."""


@pytest.fixture
def _dropped_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the mechanisms of tests/support/dropped_in to the search path and to a copy of conf/."""
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    for file in FILES.glob("*.yaml"):
        shutil.copy(file, tmp_path / "conf" / "attention")
        monkeypatch.delitem(sys.modules, f"forecast.attention.{file.stem}", raising=False)
        monkeypatch.delattr(attention, file.stem, raising=False)
    monkeypatch.setattr(attention, "__path__", [*attention.__path__, str(FILES)])
    monkeypatch.setattr(_parsing, "configuration_folder", lambda: tmp_path / "conf")


@pytest.mark.slow
@pytest.mark.usefixtures("_dropped_in", "short_checks")
@pytest.mark.parametrize("name", NOT_PROMISED)
def test_a_mechanism_of_two_files_passes_and_what_it_does_not_promise_is_said(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 0
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith(f"all promised checks pass for {name}")
    rows = re.findall(r"^│ (.+?) +│ .*│ +not promised │$", printed, re.MULTILINE)
    assert set(rows) == NOT_PROMISED[name]
    limit = {"window": "local", "cosine": "weights may vanish"}[name]
    assert re.search(rf"^│ {name} +│.*│ {limit} +│$", printed, re.MULTILINE)
