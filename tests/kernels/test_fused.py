"""The seam: when a kernel runs, what it is called with, and what `forecast.check` says."""

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

from forecast.check import suite
from forecast.check.__main__ import main
from forecast.check.candidate import Candidate
from forecast.check.tables import forms_line
from forecast.kernels import fused
from forecast.kernels.fused import use, watch
from tests.attention.cases import load
from tests.kernels.fused_cases import CASES, DEVICE, SPARSE, SUMS, Sizes, assert_matches, draw, holes, mechanism_of
from tests.support.small import ROOT

NEEDS = pytest.mark.skipif(
    find_spec("triton") is None or not (fused.IS_INTERPRETED or torch.cuda.is_available()),
    reason="needs Triton with its interpreter or a GPU",
)
ELU = SUMS["linear-elu"]
USUAL = SPARSE["probsparse-shared-sampled_mean"]


def forms_of(arguments: dict[str, Any], sizes: Sizes, dtype: torch.dtype = torch.float32, **of: Any) -> set[str]:
    inputs = [x.detach() for x in draw(sizes, dtype)]
    with watch() as forms:
        mechanism_of({**arguments, **of}, sizes)(*inputs)
    return forms


def test_kernels_are_off_by_default() -> None:
    code = "import sys; from forecast.kernels import fused; print(fused.are_on(), 'triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@NEEDS
def test_the_switch_holds_inside_its_context() -> None:
    sizes = Sizes(queries=2, keys=3)
    assert forms_of(ELU, sizes) == {"plain"}
    with use(True):
        assert forms_of(ELU, sizes) == {"kernel"}
        with use(False):
            assert forms_of(ELU, sizes) == {"plain"}
    assert forms_of(ELU, sizes) == {"plain"}


@NEEDS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_other_types_run_in_plain_form(dtype: torch.dtype) -> None:
    with use(True):
        assert forms_of(ELU, Sizes(queries=2, keys=3), dtype) == {"plain"}


@NEEDS
def test_heads_wider_than_256_run_in_plain_form() -> None:
    with use(True):
        assert forms_of(ELU, Sizes(queries=2, keys=3, width=257)) == {"plain"}


@NEEDS
def test_functional_transforms_run_in_plain_form() -> None:
    sizes = Sizes(queries=2, keys=3)
    query, key, value = (x.detach() for x in draw(sizes, torch.float32))
    mechanism = mechanism_of(ELU, sizes)
    expected = torch.func.grad(lambda x: mechanism(x, key, value).square().sum())(query)
    with use(True), watch() as forms:
        found = torch.func.grad(lambda x: mechanism(x, key, value).square().sum())(query)
    assert forms == {"plain"}
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["linear-exp", "taylor", "efficient", "probsparse-shared-sampled_mean"])
def test_without_triton_everything_works_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    sizes = Sizes()
    inputs, mask = draw(sizes, torch.float32), holes(sizes)
    mechanism = mechanism_of(CASES[name], sizes)
    expected = mechanism(*inputs, mask)
    with use(True), watch() as forms:
        assert torch.equal(mechanism(*inputs, mask), expected)
    assert forms == {"plain"}


def counted(mechanism: torch.nn.Module, shapes: list[tuple[int, int]], **of: Any) -> tuple[int, list[Tensor]]:
    """Return how many graphs inputs of these batches and lengths need, and the outputs."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(mechanism, fullgraph=True, dynamic=True, backend=counter)
    outputs = []
    with use(True):
        for batch, length in shapes:
            sizes = Sizes(batch=batch, queries=length, keys=length, **of)
            inputs = draw(sizes, torch.float32)
            outputs.append(compiled(*inputs))
            outputs[-1].sum().backward()
            assert all(x.grad is not None for x in inputs)
    torch.compiler.reset()
    return counter.frame_count, outputs


@NEEDS
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [pytest.param(ELU, id="linear"), pytest.param(USUAL, id="probsparse")])
def test_compiled_graphs_do_not_grow_with_the_number_of_lengths(arguments: dict[str, Any]) -> None:
    shapes = [(2, 30), (3, 31), (2, 32), (4, 29)]  # ⌈ln L⌉ is the same
    mechanism = mechanism_of(arguments, Sizes())
    graphs, outputs = counted(mechanism, shapes)
    assert graphs <= 2
    for (batch, length), output in zip(shapes, outputs, strict=True):
        inputs = draw(Sizes(batch=batch, queries=length, keys=length), torch.float32)
        torch.testing.assert_close(output, mechanism(*inputs), rtol=1e-5, atol=1e-6)


@NEEDS
@pytest.mark.slow
def test_the_operators_keep_the_rules_of_custom_operators() -> None:
    from forecast.kernels import triton_sampling, triton_sums

    sizes = Sizes(batch=1, queries=4, keys=6)
    inputs, mask = draw(sizes, torch.float32), holes(sizes)
    chosen = torch.tensor([[[2, 0]]], device=DEVICE)
    torch.library.opcheck(triton_sums.summed_means, (*inputs, mask, "taylor", True, 1.0))
    torch.library.opcheck(triton_sampling.softmax_of_few, (*inputs, mask, chosen))


@NEEDS
@pytest.mark.parametrize("arguments", [pytest.param(ELU, id="linear"), pytest.param(USUAL, id="probsparse")])
def test_autocast_and_activation_checkpointing_keep_output_and_gradients(arguments: dict[str, Any]) -> None:
    sizes = Sizes(batch=1, queries=6, keys=6)
    inputs = draw(sizes, torch.bfloat16)
    mechanism = mechanism_of(arguments, sizes)
    with use(True), watch() as forms, torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        output = mechanism(*inputs)
        again = checkpoint(mechanism, *inputs, use_reentrant=False)
        expected = torch.autograd.grad(output.sum(), inputs)
        found = torch.autograd.grad(again.sum(), inputs)
    assert forms == {"kernel"}
    assert output.dtype == torch.bfloat16
    assert torch.equal(again, output)
    assert all(map(torch.equal, found, expected))


@NEEDS
@pytest.mark.slow
@settings(max_examples=12)
@given(
    st.sampled_from(sorted(CASES)),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.builds(
        Sizes,
        batch=st.integers(1, 2),
        heads=st.integers(1, 2),
        queries=st.integers(1, 20),
        keys=st.integers(1, 40),
        width=st.integers(1, 17),
        value_width=st.integers(1, 17),
    ),
    st.booleans(),
    st.booleans(),
)
def test_drawn_shapes_match_the_formula(
    name: str, dtype: torch.dtype, sizes: Sizes, masked: bool, heads_last: bool
) -> None:
    inputs = draw(sizes, dtype, heads_last=heads_last)
    assert_matches(CASES[name], sizes, inputs, holes(sizes) if masked else None)


@NEEDS
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["linear", "efficient", "taylor", "probsparse"])
def test_every_check_passes_with_kernels(name: str) -> None:
    candidate = Candidate(load(ROOT / "conf" / "attention" / f"{name}.yaml"), device=DEVICE)
    with use(True), watch() as forms:
        findings = suite.examine(candidate)
    assert [finding for finding in findings if not finding.passed] == []
    assert forms == {"kernel", "plain"}


@pytest.mark.parametrize(
    ("forms", "are_on", "line"),
    [
        (
            {"full": set(), "linear": {"kernel", "plain"}, "taylor": {"kernel"}},
            True,
            "kernels ran where they apply for linear, taylor; only plain forms for full",
        ),
        ({"taylor": {"kernel"}}, True, "kernels ran where they apply for taylor"),
        (
            {"linear": {"plain"}, "mean": set()},
            False,
            "no kernel ran (not measured on a GPU yet: FORECAST_KERNELS=1 turns them on where Triton is installed): "
            "only plain forms for linear, mean",
        ),
        ({"mean": set()}, True, "no kernel ran (they do not apply here): only plain forms for mean"),
    ],
)
def test_a_line_says_which_form_ran(forms: dict[str, set[str]], are_on: bool, line: str) -> None:
    assert forms_line(forms, are_on) == line


def test_the_check_prints_which_form_ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(suite, "examine", lambda candidate: [])
    monkeypatch.setattr("forecast.check.tables.print_tables", lambda *of: None)
    monkeypatch.setattr("forecast.check.tables.success", lambda findings: [])
    assert main(["mean"]) == 0
    assert "kernel" not in capsys.readouterr().out
    with use(True):
        assert main(["mean"]) == 0
    assert "no kernel ran (they do not apply here): only plain forms for mean" in capsys.readouterr().out
