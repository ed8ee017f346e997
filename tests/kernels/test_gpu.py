"""The kernels on a real GPU: long sequences, compiled code and CUDA graphs."""

from typing import Any

import pytest
import torch

from forecast.kernels.fused import use, watch
from tests.kernels.fused_cases import CASES, SPARSE, SUMS, Sizes, draw, mechanism_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

EACH = [pytest.param(arguments, id=name) for name, arguments in CASES.items()]
USUAL = [
    pytest.param(arguments, id=str(arguments["name"]))
    for arguments in (SUMS["linear-elu"], SUMS["efficient"], SUMS["taylor"], SPARSE["probsparse-shared-sampled_mean"])
]
LONG = Sizes(batch=1, heads=8, queries=16_384, keys=16_384, width=64, value_width=64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("arguments", EACH)
def test_16384_tokens_match_the_plain_form_in_float64(arguments: dict[str, Any], dtype: torch.dtype) -> None:
    inputs = draw(LONG, dtype, heads_last=True)
    mechanism = mechanism_of(arguments, LONG)
    with use(True), watch() as forms:
        output = mechanism(*inputs)
        found = torch.autograd.grad(output.sum(), inputs)
    assert forms == {"kernel"}
    same = [x.detach().double().requires_grad_() for x in inputs]
    expected = mechanism(*same)
    bound = 1e-4 if dtype == torch.float32 else 2.0**-5
    for actual, exact in zip((output, *found), (expected, *torch.autograd.grad(expected.sum(), same)), strict=True):
        error = (actual.double() - exact).norm() / exact.norm().clamp_min(1e-12)
        assert error <= bound


@pytest.mark.parametrize("arguments", USUAL)
def test_compiled_graphs_do_not_grow_with_the_number_of_lengths_on_a_gpu(arguments: dict[str, Any]) -> None:
    from tests.kernels.test_fused import counted

    shapes = [(2, 300), (3, 310), (2, 320), (4, 290)]
    graphs, _ = counted(mechanism_of(arguments, Sizes(width=64)), shapes, width=64)
    assert graphs <= 2


@pytest.mark.parametrize("arguments", USUAL)
def test_a_cuda_graph_replays_forward_and_backward(arguments: dict[str, Any]) -> None:
    sizes = Sizes(batch=2, heads=2, queries=300, keys=300, width=64, value_width=64)
    inputs = draw(sizes, torch.bfloat16)
    mechanism = mechanism_of(arguments, sizes)
    with use(True):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                torch.autograd.grad(mechanism(*inputs).sum(), inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = mechanism(*inputs)
            gradients = torch.autograd.grad(output.sum(), inputs)
        with torch.no_grad():
            for x, other in zip(inputs, draw(sizes, torch.bfloat16, seed=5), strict=True):
                x.copy_(other)
        graph.replay()
        expected = mechanism(*inputs)
        torch.testing.assert_close(output, expected)
        for found, exact in zip(gradients, torch.autograd.grad(expected.sum(), inputs), strict=True):
            torch.testing.assert_close(found, exact)


@pytest.mark.parametrize("arguments", USUAL)
def test_no_kernel_waits_for_the_gpu(arguments: dict[str, Any]) -> None:
    sizes = Sizes(width=64)
    inputs = draw(sizes, torch.float32)
    mechanism = mechanism_of(arguments, sizes)
    with use(True):
        mechanism(*inputs).sum().backward()  # kernels are compiled here
        torch.cuda.set_sync_debug_mode("error")
        try:
            mechanism(*inputs).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
