"""Devices without data: no value may be read back, and no tensor created on another device."""

from copy import deepcopy

import pytest
import torch
from torch._subclasses import FakeTensorMode

from forecast.attention.base import Attention
from tests.attention.cases import CASES, Case

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)


def run(attention: Attention, device: str) -> None:
    for training in (True, False):
        attention.train(training)
        for masked in (False, True):
            inputs = [torch.randn(2, 2, 140, 8, device=device, requires_grad=True) for _ in range(3)]
            mask = torch.ones(2, 140, dtype=torch.bool, device=device) if masked else None
            output = attention(*inputs, mask, mask)
            assert output.shape == (2, 2, 140, 8)
            for gradient, x in zip(
                torch.autograd.grad(output.sum(), inputs, materialize_grads=True), inputs, strict=True
            ):
                assert (gradient.shape, gradient.device) == (x.shape, x.device)
            assert attention.attention_map(inputs[0], inputs[1], mask, mask).device == inputs[0].device


@every_case
def test_a_mechanism_runs_on_the_meta_device(case: Case) -> None:
    run(case.build().to("meta"), "meta")  # a tensor that is neither parameter nor buffer stays behind


@pytest.mark.gpu
@every_case
def test_a_mechanism_runs_on_a_fake_cuda_device(case: Case) -> None:
    with FakeTensorMode():
        with torch.device("cuda"):  # torch does not move a fake parameter that is referred to
            attention = case.build()
        run(attention, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@every_case
def test_cuda_and_cpu_agree(case: Case, dtype: torch.dtype) -> None:
    attention = case.build()
    moved = deepcopy(attention).cuda()
    inputs = [torch.randn(3, 2, 200, 8).to(dtype) for _ in range(3)]
    mask = torch.arange(200) < torch.tensor([[200], [77], [0]])
    for chosen in (None, mask):
        expected = attention(*(x.double() for x in inputs), chosen)
        output = moved(*(x.cuda() for x in inputs), None if chosen is None else chosen.cuda())
        tolerance = 1e-5 if dtype == torch.float32 else 0.02
        torch.testing.assert_close(output.cpu().double(), expected, rtol=tolerance, atol=tolerance)
