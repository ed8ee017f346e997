import os
import platform
import resource
import subprocess
import sys

import pytest
import torch

from forecast.common.memory import keep_freed_memory, peak_memory_mib, reset_peak_memory
from tests.support.examples import ROOT

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak of a process cannot be reset")
def test_a_peak_does_not_include_earlier_work_of_the_process() -> None:
    reset_peak_memory(CPU)
    before = peak_memory_mib(CPU)
    pieces: list[object] = [bytearray(100_000) for _ in range(6000)]  # of the heap, which may have room
    above = bytearray(100_000)  # keeps the heap from shrinking by itself
    pieces.append(pieces)  # and only the collector finds them
    assert peak_memory_mib(CPU) > before + 250
    del pieces
    reset_peak_memory(CPU)
    assert peak_memory_mib(CPU) < before + 50
    assert len(above) == 100_000


def faults_per_pass() -> int:
    """Return the page faults of four blocks of 16 MiB that are allocated and freed again and again."""
    faults = []
    for _ in range(8):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [torch.ones(2**22) for _ in range(4)]
        del blocks
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return sorted(faults)[4]


@pytest.mark.exhaustive
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep freed memory")
def test_freed_memory_is_kept_for_the_next_allocation() -> None:
    code = "from tests.common.test_memory import CPU, faults_per_pass as faults, keep_freed_memory as keep\n"
    command = [sys.executable, "-c", f"{code}print(faults(), keep(CPU), faults())"]
    fixed = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}  # else glibc itself keeps some blocks, by chance
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=fixed)
    returned, kept, faults = ended.stdout.split()
    assert kept == "True"
    assert int(faults) < 100 < 1000 < int(returned)


def test_only_a_training_on_a_cpu_keeps_freed_memory() -> None:
    assert not keep_freed_memory(torch.device("cuda"))
