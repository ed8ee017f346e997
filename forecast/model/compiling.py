"""Compile the forward pass of a training with torch.compile: as one graph, for fixed shapes, before the first step."""

from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from forecast.common.errors import InputError, first_line
from forecast.model.batch_norm import BatchNorm
from forecast.model.informer import Informer

LEAF_SPEC = r"`isinstance\(treespec, LeafSpec\)` is deprecated"
"""Warning to ignore: Lightning 2.6 and torch.export call a function that torch 2.13 deprecates."""


def compiled(call: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """Return `call` compiled. The reset keeps jobs of a sweep from sharing torch's limit of compilations."""
    torch.compiler.reset()
    return torch.compile(call, dynamic=False, **how)


def compiler_for(device: torch.device) -> dict[str, Any]:
    """Return the arguments of torch.compile for training on `device`.

    Random numbers equal those of the eager step, so compiling changes only the rounding. On a GPU both passes are
    recorded as CUDA graphs, since kernel launches dominate a step of many small kernels.
    """
    on_gpu = device.type == "cuda"
    if on_gpu and find_spec("triton") is None:
        raise InputError(
            "training.compile=true: a GPU needs the package triton, which torch for Linux includes: "
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
            "training.compile=true: no C++ compiler here, which torch.compile needs on a CPU: install g++, set the "
            "environment variable CXX to another compiler, or train with training.compile=false"
        ) from None


def check_compiling(network: Informer, device: torch.device, processes: int) -> None:
    """Raise InputError if compiling is known to fail."""
    compiler_for(device)
    if processes > 1 and any(isinstance(module, BatchNorm) for module in network.modules()):
        raise InputError(
            f"training.compile=true: the batch norm of this model communicates with all {processes} processes, which "
            "cannot be compiled: use trainer.devices=1, model.distil=false, or training.compile=false"
        )


class CompiledForward:
    """Compiled forward and backward pass of `network` in training.

    Only the function is compiled, not the module: weight names, checkpoints and evaluation do not change. `call` is a
    method of the network, `forward` by default. `seconds` is the compile time before the first step.
    """

    def __init__(self, network: nn.Module, device: torch.device, call: Callable[..., Any] | None = None) -> None:
        self.network = network
        self.seconds = 0.0
        self._device, self._on_gpu = device, device.type == "cuda"
        self._forward = compiled(call or network.forward, fullgraph=True, **compiler_for(device))
        self._graphs = _graph_count()

    def __call__(self, *inputs: Tensor | None) -> Any:
        """Return the output of `call`, up to rounding."""
        if self._on_gpu:
            self.network.zero_grad()  # the graphs reuse the memory of the last gradients
            torch.compiler.cudagraph_mark_step_begin()
        return self._forward(*inputs)

    @property
    def recompiles(self) -> int:
        """Number of compilations after `make_ready`: 0 while shapes and types do not change."""
        return _graph_count() - self._graphs

    def make_ready(self, loss: Callable[[], Tensor]) -> None:
        """Compile both passes by running them; `loss` calls this object. Weights and buffers do not change."""
        from torch._dynamo.exc import TorchDynamoException
        from torch._inductor.exc import CppCompileError

        started = perf_counter()
        passes = 3 if self._on_gpu else 1  # CUDA graphs: warm-up, recording, replay
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
        for buffer, saved in buffers:  # batch norm statistics
            buffer.copy_(saved)
        if self._on_gpu:
            torch.cuda.synchronize(self._device)
        self.seconds = perf_counter() - started
        self._graphs = _graph_count()


def _graph_count() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])
