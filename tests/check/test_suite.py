"""Each check can fail: a mechanism with one fault fails only that check, with exit code 1."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

from forecast.attention.base import Attention
from forecast.check.__main__ import main
from forecast.check.suite import CHECKS, Check, Finding
from forecast.check.tables import failures
from tests.check import wrong
from tests.check.broken import (
    FAULTS,
    WITH_FORMULA,
    ByFeatures,
    ChoosesByAllKeys,
    HeadsDifferAsDeclared,
    Softmax,
    mean_formula,
)
from tests.check.wrong import WRONG
from tests.support.covering import covering

LONG_SUMS = "long sums, half"


def replace_mean(
    monkeypatch: pytest.MonkeyPatch, kind: type[Attention], formula: Callable[..., Tensor] | None = None
) -> None:
    """Replace class and formula in forecast/attention/mean.py, whose YAML file has no arguments, by these."""
    module = ModuleType("forecast.attention.mean")
    vars(module)[kind.__name__] = kind
    if formula is not None:
        vars(module)["formula"] = formula
        monkeypatch.setattr(formula, "__module__", module.__name__)
    monkeypatch.setattr(kind, "__module__", module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(("check", "kind"), FAULTS, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_a_fault_fails_its_own_check_and_no_other(
    check: str,
    kind: type[Attention],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    replace_mean(monkeypatch, kind, mean_formula if kind in WITH_FORMULA else None)
    if check != LONG_SUMS:
        request.getfixturevalue("short_checks")
    code = main(["mean", "--quiet"])
    assert (failed_checks(capsys), code) == ([check], 1)


def failed_checks(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the names of the checks that the printed lines say to fail."""
    return re.findall(r"^fail: attention=mean: (.*?): ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("kind", covering(WRONG, every=2), ids=lambda kind: kind.__name__)
def test_a_wrong_mechanism_beside_the_right_formula_fails_the_checks_that_say_why(
    kind: type[Attention],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    replace_mean(monkeypatch, kind, wrong.formula)
    if LONG_SUMS not in WRONG[kind]:
        request.getfixturevalue("short_checks")
    assert main(["mean", "--quiet"]) == 1
    failed = failed_checks(capsys)
    assert WRONG[kind] <= set(failed)
    if len(WRONG[kind]) == 1 and kind is not wrong.NormalizesOverQueries:
        assert failed == list(WRONG[kind])


@pytest.mark.usefixtures("short_checks")
def test_the_right_mechanism_beside_that_formula_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, wrong.Plain, wrong.formula)
    assert main(["mean"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("all promised checks pass for mean")


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_the_map_of_a_wrong_mechanism_agrees_with_its_output(kind: type[Attention]) -> None:
    attention = kind(num_heads=2, head_dim=8).double()
    query, key, value = (torch.randn(1, 2, 6, 8, dtype=torch.float64) for _ in range(3))
    torch.testing.assert_close(attention(query, key, value), attention.attention_map(query, key) @ value)


@pytest.mark.usefixtures("short_checks")
@pytest.mark.parametrize("kind", [Softmax, ByFeatures, ChoosesByAllKeys, HeadsDifferAsDeclared])
def test_mechanisms_without_a_fault_pass(
    kind: type[Attention], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, kind)
    assert main(["mean", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_failures_that_say_why_are_printed_before_what_follows_from_them() -> None:
    """Heads that share their weights fail the formula at every size, and one line says that heads are mixed."""
    values = {"one head changed": 0.5, "empty row": 1.0, "operations": 0.9}
    values |= {check.name: 0.3 for check in CHECKS if check.against in ("formula", "oracle")}
    findings = [
        Finding("mine", check, values.get(check.name), "TypeError: no, mine.py line 3" if check.name == "map" else "")
        for check in CHECKS
    ]
    findings[4] = replace(findings[4], value=torch.nan)
    names = [re.findall("fail: attention=mine: (.*?): ", line)[0] for line in failures(findings)]
    assert names[:5] == ["map", "empty row", "one head changed", "formula", "operations"]
    assert names[5:8] == ["formula, masked", "formula, causal", "formula, gradient"]
    assert len(names) == len(values) + 1


def test_every_check_has_a_fault_that_fails_it() -> None:
    assert {name for name, _ in FAULTS} == {check.name for check in CHECKS}


def test_every_check_has_a_promise() -> None:
    assert all(check.promise.endswith(".") for check in CHECKS)
    assert len({check.promise for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize(("value", "passed"), [(None, True), (0.5, True), (0.6, False), (torch.nan, False)])
def test_a_finding_passes_up_to_its_bound_and_nan_fails(value: float | None, passed: bool) -> None:
    check = Check("some", 0.5, lambda candidate: value, "contract")
    assert Finding("mean", check, value).passed is passed
