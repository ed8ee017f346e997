"""The formula in a mechanism's file: it stands alone, and a file without one is said to have none."""

import math
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from forecast import attention
from forecast.attention._parsing import attention_arguments
from forecast.attention.base import allowed_pairs
from forecast.attention.full import softmax_weights
from forecast.check.__main__ import main
from forecast.check.candidate import Candidate
from forecast.check.formula import pairs_allowed, read_formula
from forecast.common.errors import InputError
from tests.attention.reference import REFERENCES
from tests.check.broken import Softmax
from tests.check.test_suite import replace_mean
from tests.check.wrong import ForgetsTheScale, formula

CONSTANT = 2.0

pytestmark = pytest.mark.usefixtures("short_checks")


def calls_the_program(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    return softmax_weights(query, key, allowed) @ value


def calls_it_from_within(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    def weights() -> Tensor:
        return softmax_weights(query, key, allowed)

    return weights() @ value


def imports_it(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    from forecast.attention import full

    return full.softmax_weights(query, key, allowed) @ value


def reads_a_constant(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    return value * CONSTANT


def finds_it_by_name(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: Any) -> Tensor:
    return globals()["softmax_" + "weights"](query, key, allowed) @ value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (calls_the_program, "softmax_weights"),
        (calls_it_from_within, "softmax_weights"),
        (imports_it, r"forecast\.attention"),
        (reads_a_constant, "CONSTANT"),
        (finds_it_by_name, "globals"),
    ],
)
def test_a_formula_that_uses_the_program_is_refused_by_name(
    function: Callable[..., Tensor], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, Softmax, function)
    assert main(["mean", "--quiet"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("fail: attention=mean: formula; formula, masked; formula, causal and ")
    assert re.search(rf"formula refers to {name}: it may use only its arguments, torch and the standard library", line)


@pytest.mark.parametrize("function", [3, math.sqrt, print], ids=str)
def test_a_formula_that_is_no_function_of_the_file_is_refused(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_mean(monkeypatch, Softmax)
    monkeypatch.setattr(sys.modules["forecast.attention.mean"], "formula", function, raising=False)
    with pytest.raises(InputError, match="formula must be a function that is defined in the file of the mechanism"):
        read_formula(Softmax)


def test_a_formula_with_default_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_default(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, scale: float = CONSTANT) -> Tensor:
        return value * scale

    replace_mean(monkeypatch, Softmax, with_default)
    with pytest.raises(InputError, match="formula must have no default values"):
        read_formula(Softmax)


def test_a_formula_that_overflows_is_said_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def overflows(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, **_: Any) -> Tensor:
        weights = (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).exp().masked_fill(~allowed, 0)
        return weights / weights.sum(dim=-1, keepdim=True) @ value

    replace_mean(monkeypatch, Softmax, overflows)
    assert main(["mean", "--quiet"]) == 1
    assert (
        "|k| = 140; q = k = -20; x = 100, bfloat16: formula: its output is not finite here: " in capsys.readouterr().out
    )


def test_without_a_formula_a_wrong_equation_passes_but_the_check_says_that_it_has_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, ForgetsTheScale)
    assert main(["mean"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"│ formula +│ formula +│ [\d.e-]+ │ +none │", printed)
    assert re.search(r"│ output, float32 +│ own map +│", printed)
    assert "all promised checks pass" not in printed
    assert (
        printed.rstrip()
        .splitlines()[-1]
        .startswith(
            "checks pass for mean against its own map only (formula: none), so its equation is not checked: add"
        )
    )


def test_in_a_table_of_both_the_own_map_is_marked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_mean(monkeypatch, Softmax)
    assert main(["linear", "mean", "--length", "16"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"│ output, float32 +│ formula\* +│", printed)
    assert "* for mean: its own map, since its file has no formula" in printed
    assert "all promised checks pass for linear\nchecks pass for mean against its own map only" in printed


@pytest.mark.parametrize("name", REFERENCES)
def test_every_mechanism_of_the_project_has_a_formula(name: str) -> None:
    assert read_formula(attention.find(name)) is not None


@pytest.mark.parametrize(
    "changes", [{"sampling": "per_query"}, {"measure": "published"}, {"factor": 1}], ids=lambda each: str(each)
)
def test_the_formula_of_probsparse_follows_its_options(changes: dict[str, Any]) -> None:
    candidate = Candidate(attention_arguments(["probsparse"])["probsparse"] | changes)
    for causal in (False, True):
        mechanism = candidate.build(causal=causal, dtype=torch.float64)
        inputs = candidate.tensors(97, dtype=torch.float64)
        for mask in (None, candidate.holes(2, 97)):
            torch.testing.assert_close(mechanism(*inputs, mask), candidate.oracle(mechanism, inputs, mask))


@pytest.mark.parametrize("causal", [False, True])
def test_the_allowed_pairs_of_a_formula_are_those_of_the_mechanisms(causal: bool) -> None:
    query, key = torch.zeros(2, 1, 5, 3), torch.zeros(2, 1, 5, 3)
    for mask in (None, torch.rand(2, 5) < 0.5, torch.rand(2, 5, 5) < 0.5):
        allowed = allowed_pairs(query, key, mask, causal)
        expected = torch.ones(2, 1, 5, 5, dtype=torch.bool) if allowed is None else allowed.expand(2, 1, 5, 5)
        assert torch.equal(pairs_allowed(query, key, mask, causal), expected)


def test_the_formula_of_the_wrong_mechanisms_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_mean(monkeypatch, Softmax, formula)
    assert read_formula(Softmax) is formula
