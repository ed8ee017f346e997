"""Each preset with each mechanism on a fake device, to detect tensors on the wrong device.

The device "meta" has shapes but no data; every operation is checked for tensors from other devices. With a GPU, a fake
CUDA device is tested as well: a backward pass through fake tensors needs a CUDA context.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from forecast.common.errors import InputError
from forecast.evaluation.metrics import loss_by_name
from forecast.model import build
from forecast.model.presets import Mechanisms, Sizes
from tests.support.covering import covering
from tests.support.examples import FULL, OPTIONS, ROOT, make_inputs

FILES = (ROOT / "conf" / "attention").glob("*.yaml")
NODES: dict[str, Any] = {path.stem: OmegaConf.to_container(OmegaConf.load(path)) for path in FILES}
PRESETS = {
    "patch_informer": {"linear_path": "zero"},
    "patch_informer mixed": {"channels": "mixed", "patch_length": 3, "stride": 2},
    "informer": {},
}
SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=16, horizon=6)
SHAPES = [tensor.shape for tensor in make_inputs(SIZES)]


every_device = pytest.mark.parametrize("device", ["meta", pytest.param("cuda", marks=pytest.mark.gpu)])


class OnlyOn(TorchDispatchMode):
    """Raise for an operation with a tensor on another device; scalars may be on the CPU."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves((args, kwargs, result)):
            if isinstance(tensor, Tensor) and tensor.ndim and tensor.device.type != self.device:
                raise RuntimeError(f"{function} met a tensor on the device {tensor.device}")
        return result


def fake(device: str) -> Any:
    return FakeTensorMode() if device == "cuda" else nullcontext()


@every_device
@pytest.mark.parametrize(
    ("mechanism", "preset", "masked"), covering(sorted(NODES), PRESETS, [False, True], every=len(PRESETS))
)
def test_a_training_step_stays_on_its_device(mechanism: str, preset: str, masked: bool, device: str) -> None:
    name, node = preset.split()[0], NODES[mechanism]
    mode = fake(device)
    with mode, torch.device(device):
        options = {**OPTIONS[name], **PRESETS[preset], "dropout": 0.1}
        try:
            model = build(name, SIZES, Mechanisms(encoder=node, decoder=node, cross=node), **options)
        except InputError:  # it cannot be causal, or cannot cross: what it can do is still tried
            model = build(name, SIZES, Mechanisms(encoder=node, decoder=FULL, cross=FULL), **options)
        past, past_known, future_known = map(torch.empty, SHAPES)
        observed = torch.ones(past.shape, dtype=torch.bool) if masked else None
        future = torch.empty(2, 6, 2)
    with mode, OnlyOn(device):
        for training in (False, True):
            forecast = model.train(training)(past, past_known, future_known, observed)
            assert forecast.shape == (2, 6, 2)
        loss_by_name("mae")(forecast, future, None).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert {"tokens.head.weight", "encoder.norm.weight", "decoder.norm.weight"} <= set(gradients)
    assert {gradient.device.type for gradient in gradients.values()} == {device}


@every_device
def test_a_tensor_on_the_wrong_device_is_detected(device: str) -> None:
    with fake(device):
        table = torch.empty(3, 4, device=device)
        with OnlyOn(device), pytest.raises(RuntimeError, match="device"):
            table.index_select(0, torch.zeros(1, dtype=torch.int64))


@pytest.mark.gpu
@pytest.mark.parametrize("preset", PRESETS)
def test_gpu_and_cpu_forecasts_agree(preset: str) -> None:
    name = preset.split()[0]
    torch.manual_seed(0)
    model = build(name, SIZES, Mechanisms(FULL, FULL, FULL), **{**OPTIONS[name], **PRESETS[preset]}).eval()
    inputs = make_inputs(SIZES)
    expected = model(*inputs)
    actual = model.cuda()(*(tensor.cuda() for tensor in inputs))
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-4, rtol=1e-4)
