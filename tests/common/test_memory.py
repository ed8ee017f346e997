import sys

import pytest
import torch

from forecast.common.memory import peak_memory_mib, reset_peak_memory

CPU = torch.device("cpu")


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
