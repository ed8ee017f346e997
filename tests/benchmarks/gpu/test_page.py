"""The table of a page, from records."""

from benchmarks.gpu.page import crossing_table
from benchmarks.gpu.targets import CROSSING, NOT_MEASURED


def test_the_kernels_are_not_measured_until_a_gpu_is_in_the_record() -> None:
    assert crossing_table([]).count(NOT_MEASURED) == 8
    rows = [{"device": "NVIDIA H200", "part": CROSSING, "case": "linear, both", "value": "1520"}]
    lines = crossing_table(rows).splitlines()
    assert "| NVIDIA H200, bf16, kernels | forward and backward | 1,520 | not measured on a GPU |" in lines[-1]
