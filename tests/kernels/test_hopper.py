"""The kernels compile for an H100, and fit into one of its multiprocessors."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.small import ROOT

pytest.importorskip("triton", reason="needs the package triton")

SHARED_MEMORY = 227 * 1024
"""Bytes of shared memory that one program may use."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [16, 64, 128, 256])
def test_every_kernel_compiles_for_an_h100(width: int) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    words = [sys.executable, "-m", "tests.support.hopper", str(width)]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    kernels = [json.loads(line) for line in done.stdout.splitlines()]
    assert {kernel["kernel"] for kernel in kernels} >= {"_sum_keys", "_mix", "_rank", "_attend_few", "_few_gradients"}
    assert all(kernel["shared"] <= SHARED_MEMORY for kernel in kernels)
    if width <= 64:
        assert all(kernel["spilled"] <= 256 for kernel in kernels)
