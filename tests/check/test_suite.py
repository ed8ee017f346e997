"""Each check can fail: a mechanism with one fault fails only that check, with exit code 1."""

import re
import sys
from types import ModuleType

import pytest
import torch

from forecast.attention.base import Attention
from forecast.check.__main__ import main
from forecast.check.suite import CHECKS, Check, Finding
from tests.check.broken import FAULTS, ByFeatures, ChoosesByAllKeys, Softmax


def replace_mean(monkeypatch: pytest.MonkeyPatch, kind: type[Attention]) -> None:
    """Replace the class in forecast/attention/mean.py, whose YAML file has no arguments, by `kind`."""
    module = ModuleType("forecast.attention.mean")
    vars(module)[kind.__name__] = kind
    monkeypatch.setattr(kind, "__module__", module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(("check", "kind"), FAULTS, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_a_fault_fails_its_own_check_and_no_other(
    check: str, kind: type[Attention], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, kind)
    code = main(["mean", "--quiet"])
    failed = re.findall(r"^fail: attention=mean: (.*?): ", capsys.readouterr().out, re.MULTILINE)
    assert (failed, code) == ([check], 1)


@pytest.mark.parametrize("kind", [Softmax, ByFeatures, ChoosesByAllKeys])
def test_mechanisms_without_a_fault_pass(
    kind: type[Attention], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, kind)
    assert main(["mean", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_every_check_has_a_fault_that_fails_it() -> None:
    assert {name for name, _ in FAULTS} == {check.name for check in CHECKS}


def test_every_check_has_a_promise() -> None:
    assert all(check.promise.endswith(".") for check in CHECKS)
    assert len({check.promise for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize(("value", "passed"), [(None, True), (0.5, True), (0.6, False), (torch.nan, False)])
def test_a_finding_passes_up_to_its_bound_and_nan_fails(value: float | None, passed: bool) -> None:
    check = Check("some", 0.5, lambda candidate: value)
    assert Finding("mean", check, value).passed is passed
