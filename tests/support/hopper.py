"""Compile every kernel for an H100 without one, and print its registers, spilled bytes and shared memory.

`python -m tests.support.hopper [width]`; Triton brings the assembler. One JSON object a line.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from forecast.kernels import triton_rows, triton_sampling, triton_sums
from tests.kernels.fused_cases import CASES

LENGTH, HEADS = 256, 8

PROGRAMS = 264
"""Two for each multiprocessor, so that the length is split."""


class Hopper:
    """Driver of a GPU that is not there."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def resources(ptx: str) -> dict[str, int]:
    """Return what the assembler reports for the code of one kernel."""
    with TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        words = [triton.knobs.nvidia.ptxas.path, "-v", "--gpu-name=sm_90a", str(source), "-o", f"{folder}/kernel.cubin"]
        report = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    found = {"registers": r"Used (\d+) registers", "spilled": r"(\d+) bytes spill stores"}
    return {name: int(re.findall(pattern, report)[0]) for name, pattern in found.items()}


def install() -> None:
    """Compile each kernel instead of running it, and print a line for each new one."""
    run, seen = JITFunction.run, set[int]()

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **of: Any) -> Any:
        kernel = run(self, *arguments, grid=grid, warmup=True, **of)
        if id(kernel) not in seen:
            seen.add(id(kernel))
            line = {"kernel": self.__name__, "features": of.get("FEATURES", ""), "precision": of.get("PRECISION", "")}
            line |= {**resources(kernel.asm["ptx"]), "shared": kernel.metadata.shared, "warps": of.get("num_warps", 4)}
            print(json.dumps(line), flush=True)
        return kernel

    JITFunction.run = compile_only
    driver.set_active(Hopper())
    triton_rows._programs = lambda device: PROGRAMS  # type: ignore[assignment]


def compile_case(arguments: dict[str, Any], width: int, dtype: torch.dtype, masked: bool) -> None:
    """Compile what one mechanism needs, forward and backward."""
    query, key, value = (torch.empty(1, LENGTH, HEADS, width, dtype=dtype).transpose(1, 2) for _ in range(3))
    mask = torch.ones(1, LENGTH, dtype=torch.bool) if masked else None
    if arguments["name"] == "probsparse":
        positions = torch.zeros(1, 1 if arguments["sampling"] == "shared" else LENGTH, 30, dtype=torch.int64)
        triton_sampling.informative_queries(query, key, positions, None, None, None, False, 30)
        chosen = torch.zeros(1, HEADS, 30, dtype=torch.int64)
        output, states = triton_sampling.softmax_of_few(query, key, value, mask, chosen)
        triton_sampling.softmax_of_few_gradients(output, query, key, value, mask, chosen, states)
        return
    features = arguments.get("feature_map", {"efficient": "softmax"}.get(arguments["name"], "taylor"))
    options = features, arguments.get("normalize", True), 1.0
    output, states = triton_sums.summed_means(query, key, value, mask, *options)
    triton_sums.summed_means_gradients(output, query, key, value, mask, states, *options)


def main(width: int, names: list[str]) -> None:
    """Compile the kernels of the named cases, all by default, for heads of this width."""
    install()
    for name in names or CASES:
        for dtype in (torch.bfloat16, torch.float32):
            compile_case(CASES[name], width, dtype, masked=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64, sys.argv[2:])
