"""A training's forward pass compiled by torch: for shapes that never vary, in one piece, before the first step."""

from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from forecast.common.errors import InputError, first_line
from forecast.model.informer import Informer
from forecast.model.kernels.batch_norm import BatchNorm

LEAF_SPEC = r"`isinstance\(treespec, LeafSpec\)` is deprecated"
"""A warning of third parties: Lightning 2.6 and torch's export walk containers in a way that torch 2.13 calls old."""


def compiled(call: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """Return `call` compiled separately, so a sweep's jobs do not share torch's limit of compilations a function."""
    torch.compiler.reset()
    return torch.compile(call, dynamic=False, **how)


def compiler_for(device: torch.device) -> dict[str, Any]:
    """Return torch.compile's arguments for training on `device`.

    Random numbers equal those of the eager step, so compiling changes the rounding alone. On a GPU both passes are
    recorded as CUDA graphs: a step of many small kernels is bound by their launches.
    """
    on_gpu = device.type == "cuda"
    if on_gpu and find_spec("triton") is None:
        raise InputError(
            "training.compile=true: needs the package triton on a GPU, which torch for Linux brings along: "
            "install it, or train with training.compile=false"
        )
    if not on_gpu:
        _find_cpp_compiler()
    return {"backend": "inductor", "options": {"fallback_random": True, "triton.cudagraphs": on_gpu}}


def _find_cpp_compiler() -> None:
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, OSError):
        raise InputError(
            "training.compile=true: there is no C++ compiler here, which torch.compile needs on a CPU: install g++, "
            "name another one in the environment variable CXX, or train with training.compile=false"
        ) from None


def check_compiling(network: Informer, device: torch.device, processes: int) -> None:
    """Refuse what is known to fail before anything has been compiled."""
    compiler_for(device)
    if processes > 1 and any(isinstance(part, BatchNorm) for part in network.modules()):
        raise InputError(
            f"training.compile=true: this model's batch norm talks to all {processes} processes in the middle of what "
            "is compiled: use trainer.devices=1, model.distil=false, or training.compile=false"
        )


class CompiledForward:
    """A compiled forward pass through `network` in training, with its backward pass.

    The function is compiled, not the module: names of weights, checkpoints and evaluation do not change. `call` is a
    method of the network, `forward` by default; `seconds` is the compile time before the first step.
    """

    def __init__(self, network: nn.Module, device: torch.device, call: Callable[..., Any] | None = None) -> None:
        self.network = network
        self.seconds = 0.0
        self._device, self._on_gpu = device, device.type == "cuda"
        self._forward = compiled(call or network.forward, fullgraph=True, **compiler_for(device))
        self._graphs = _graphs_so_far()

    def __call__(self, *inputs: Tensor | None) -> Any:
        """Return what `call` gives, to rounding."""
        if self._on_gpu:
            self.network.zero_grad()  # gradients of the last step lie in memory that the graphs use again
            torch.compiler.cudagraph_mark_step_begin()
        return self._forward(*inputs)

    @property
    def recompiles(self) -> int:
        """How often something was compiled after `make_ready`: 0 as long as shapes and types stay the same."""
        return _graphs_so_far() - self._graphs

    def make_ready(self, loss: Callable[[], Tensor]) -> None:
        """Compile both passes by making each once, with a `loss` that calls this object; the network is unchanged."""
        from torch._dynamo.exc import TorchDynamoException
        from torch._inductor.exc import CppCompileError

        started = perf_counter()
        passes = 3 if self._on_gpu else 1  # of CUDA graphs one warms up, one records, one is as steps will be
        buffers = [(buffer, buffer.clone()) for buffer in self.network.buffers()]
        try:
            for _ in range(passes):
                loss().backward()
        except (TorchDynamoException, CppCompileError) as error:
            reason = first_line(getattr(error, "inner_exception", error))
            raise InputError(
                f"training.compile=true: this model cannot be compiled here ({reason}): "
                "train with training.compile=false"
            ) from None
        self.network.zero_grad()
        for buffer, kept in buffers:  # the batch norm's statistics
            buffer.copy_(kept)
        if self._on_gpu:
            torch.cuda.synchronize(self._device)
        self.seconds = perf_counter() - started
        self._graphs = _graphs_so_far()


def _graphs_so_far() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])
