"""Time of each attention on a CPU in bfloat16 beside float32, with those of another version of the program.

`python -m benchmarks.studies.bf16 --against ../before --output bf16-cpu.csv` runs the passes of `../before` and of this
checkout in alternation. Without `--against` it measures this one alone.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor

from benchmarks.studies.training import BEFORE, CPU, NOW, Build, builder_of, pass_of
from forecast.attention import available
from forecast.benchmark.case import DTYPES
from forecast.benchmark.machine import facts_of
from forecast.common.cli import finish, positive
from forecast.common.files import replacing
from forecast.common.memory import keep_freed_memory
from forecast.common.tables import Row, to_csv
from forecast.common.timing import LEAST_ROUNDS, interleave

MODULE = "benchmarks.studies.bf16"
PRECISIONS = ("fp32", "bf16")
ENOUGH = 5.0
"""Seconds of a pass after which its repetitions end: `full` takes seconds each."""


def passes(
    build: Build, name: str, dtype: torch.dtype, backward: bool, options: argparse.Namespace
) -> Callable[[], Any]:
    """Return a function that runs a forward pass, or forward and backward; it returns output and gradients."""
    torch.manual_seed(0)
    shape = (1, options.heads, options.length, options.head_dim)
    inputs = [torch.randn(shape).to(dtype).requires_grad_(backward) for _ in range(3)]
    sizes = {"num_heads": options.heads, "head_dim": options.head_dim, "max_key_length": options.length}
    mechanism = build(name, **sizes).eval()  # ProbSparse then always draws the same sample
    if backward:
        return partial(pass_of, mechanism, inputs, torch.randn(shape).to(dtype))

    def forward() -> Any:
        with torch.no_grad():
            return mechanism(*inputs), ()

    return forward


def processor_seconds(run: Callable[[], object], walls: list[float]) -> float:
    """Return the processor time of one pass, and append its wall-clock time to `walls`."""
    wall, cpu = perf_counter(), process_time()
    result = run()
    cpu, wall = process_time() - cpu, perf_counter() - wall
    del result
    walls.append(wall)
    return cpu


def digest_of(result: tuple[Tensor, Sequence[Tensor | None]]) -> str:
    """Return a hash of the bytes of an output and its gradients."""
    output, gradients = result
    digest = sha256()
    for tensor in (output, *gradients):
        if tensor is not None:
            digest.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def measure(builds: dict[str, Build], name: str, backward: bool, options: argparse.Namespace) -> Row:
    """Return the row of a mechanism: medians of both versions and precisions, and the ratios of the pairs."""
    runs = {
        f"{precision}_{label}": passes(build, name, DTYPES[precision], backward, options)
        for label, build in builds.items()
        for precision in PRECISIONS
    }
    digests = {key: digest_of(run()) for key, run in runs.items() if key.startswith("fp32")}
    walls: dict[str, list[float]] = {key: [] for key in runs}
    timed = {key: partial(processor_seconds, run, walls[key]) for key, run in runs.items()}
    cpu = interleave(timed, least=LEAST_ROUNDS, most=options.pairs, seconds=ENOUGH)
    row: Row = {"mechanism": name, "passes": "both" if backward else "forward", "length": options.length}
    row |= {"heads": options.heads, "head_dim": options.head_dim, "pairs": min(map(len, cpu.values()))}
    for key in runs:
        row[f"{key}_ms"] = round(1e3 * median(walls[key]), 1)
        row[f"{key}_cpu_ms"] = round(1e3 * median(cpu[key]), 1)
    for label in builds:
        pairs = zip(cpu[f"fp32_{label}"], cpu[f"bf16_{label}"], strict=False)  # of the same rounds
        row[f"bf16_over_fp32_{label}"] = round(median(half / single for single, half in pairs), 2)
    row["same_fp32_bytes"] = len(set(digests.values())) == 1 if BEFORE in builds else ""
    return row


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Measure each mechanism, print a line for each, and write the rows."""
    keep_freed_memory(CPU)  # as a training does
    torch.set_num_threads(options.threads)
    builds = {NOW: builder_of(None)}
    if options.against is not None:
        builds = {BEFORE: builder_of(options.against), **builds}
    facts = facts_of(CPU, " and ".join(PRECISIONS), arguments, MODULE)
    rows = []
    for name in options.mechanisms:
        for backward in (False, True):
            rows.append(measure(builds, name, backward, options) | facts)
            ratios = ", ".join(f"{label} {rows[-1][f'bf16_over_fp32_{label}']:.2f}" for label in builds)
            print(f"{name}, {rows[-1]['passes']}: bf16 over fp32: {ratios}", flush=True)
            if options.output is not None:
                with replacing(options.output) as file:
                    file.write(to_csv(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study on the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--against", type=Path, help="folder of another checkout, measured first in each pair")
    add("--mechanisms", nargs="+", default=available(), choices=available())
    add("--length", type=positive, default=8192, help="number of tokens (default: %(default)s)")
    add("--heads", type=positive, default=8, help="number of heads (default: %(default)s)")
    add("--head-dim", type=positive, default=64, help="width of a head (default: %(default)s)")
    add("--threads", type=positive, default=2, help="number of threads (default: %(default)s)")
    add("--pairs", type=positive, default=9, help="most timed passes (default: %(default)s)")
    add("--output", type=Path, help="file for the record")
    options = parser.parse_args(given)
    return finish(lambda: run(options, given))


if __name__ == "__main__":
    sys.exit(main())
