"""Compare our training step with the matrix products of its layers: `python -m benchmarks.step`."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.models import Preset, Task, build_ours, our_peer, parse_preset
from benchmarks.whole_models import add_task_options, call
from forecast.attention._parsing import parse
from forecast.benchmark.case import DTYPES
from forecast.benchmark.machine import choose_device, facts_of, product_rate
from forecast.benchmark.measure import WARM_UP
from forecast.benchmark.options import add_run_options, open_folder
from forecast.benchmark.report import CASES, OPERATIONS, heading_of, print_report, write_record, write_unfinished
from forecast.common.cli import positive
from forecast.common.operations import training_operations
from forecast.common.progress import progress
from forecast.common.tables import Row, Table
from forecast.common.text import per_cent, spread, three_digits
from forecast.common.timing import Spread, interleave, seconds_of
from forecast.model.informer import Informer
from forecast.training.steps import Peer, arithmetic, training_step

KINDS: Mapping[str, tuple[str, ...]] = {
    "products": (
        "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addbmm", "aten::linear", "aten::matmul",
        "aten::_scaled_dot_product", "aten::_flash_attention", "aten::_efficient_attention", "aten::mkldnn_",
        "aten::cudnn_convolution", "aten::_slow_conv", "aten::thnn_conv", "aten::convolution", "aten::_convolution",
    ),
    "optimizer": ("Optimizer.", "aten::_fused_adam", "aten::_foreach"),
}  # fmt: skip
"""Prefixes of operation names by kind; all other operations are `rest`."""

REST = "rest"


@dataclass(frozen=True)
class Operation:
    """An operation: its name, kind, number of calls, and seconds without nested operations."""

    name: str
    kind: str
    calls: int
    seconds: float


def breakdown(run: Callable[[], object], device: torch.device) -> list[Operation]:
    """Return the operations of one pass, the slowest first; on CUDA the time is of the launched kernels."""
    # the profiler's library otherwise prints each start and stop to stderr
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as recorded:
        result = run()
        if on_gpu:
            torch.cuda.synchronize(device)
    del result
    operations = []
    for event in recorded.key_averages():
        # events of kernels would count the time of their operation twice
        if event.device_type.name == "CPU":
            microseconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            operations.append(Operation(event.key, kind_of(event.key), event.count, microseconds / 1e6))
    return sorted(operations, key=lambda operation: -operation.seconds)


def kind_of(name: str) -> str:
    """Return the kind of an operation: `products`, `optimizer` or `rest`."""
    return next((kind for kind, beginnings in KINDS.items() if name.startswith(beginnings)), REST)


@dataclass(frozen=True)
class StepFigures:
    """Seconds of a step and of its parts, each timed separately, with operation counts and rates.

    `products` are the operations per second of the encoder layer's matrix products, before and after the steps.
    """

    step: Spread
    forward: Spread
    backward: Spread
    update: Spread
    operations: int
    products: tuple[float, float]

    @property
    def product_rate(self) -> float:
        """The limit: the higher rate of the two."""
        return max(self.products)

    @property
    def share(self) -> float:
        """Operations per second of the step, as a fraction of the limit."""
        return self.operations / self.step.median / self.product_rate

    @property
    def share_without_update(self) -> float:
        """The same fraction for forward and backward only."""
        return self.operations / (self.forward.median + self.backward.median) / self.product_rate

    @property
    def update_share(self) -> float:
        """Fraction of the step's time in the optimizer."""
        return self.update.median / (self.forward.median + self.backward.median + self.update.median)


def measure_step(
    network: Informer, peer: Peer, preset: Preset, precision: str, *, repetitions: int
) -> tuple[StepFigures, Callable[[], object]]:
    """Time a step and its parts in turn, between two measurements of the limit; return the figures and the step."""
    step, device = training_step(peer, precision), peer.device
    rows = encoder_rows(network, step)
    for _ in range(WARM_UP[device.type]):
        step()
    counted = training_operations(step)
    before = layer_product_rate(preset, rows, precision, device)
    parts = _parts(peer, precision)
    times: dict[str, list[float]] = {name: [] for name in parts}

    def whole() -> float:
        return seconds_of(step, device)

    def separate() -> float:
        for name, part in parts.items():
            times[name].append(seconds_of(part, device))
        return 0.0

    total = interleave({"whole": whole, "separate": separate}, least=repetitions, most=repetitions, seconds=0)["whole"]
    after = layer_product_rate(preset, rows, precision, device)
    spreads = {name: Spread.of(seconds) for name, seconds in {"step": total, **times}.items()}
    return StepFigures(operations=counted, products=(before, after), **spreads), step


def encoder_rows(network: Informer, run: Callable[[], object]) -> int:
    """Return the number of encoder tokens of all windows when `run` runs the network."""
    counts: list[int] = []

    def count(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        counts.append(inputs[0].shape[:-1].numel())

    hook = network.encoder.register_forward_pre_hook(count)
    run()
    hook.remove()
    return counts[0]


def layer_product_rate(preset: Preset, rows: int, precision: str, device: torch.device) -> float:
    """Return the operations per second of an encoder layer's fastest product: projection, into d_ff, or out of it."""
    d_model, d_ff = preset.options["d_model"], preset.options["d_ff"]
    shapes = [(rows, d_model, d_model), (rows, d_model, d_ff), (rows, d_ff, d_model)]
    return max(product_rate(*shape, device, DTYPES[precision]) for shape in shapes)


def _parts(peer: Peer, precision: str) -> dict[str, Callable[[], object]]:
    """Return the parts of a step, in the order in which they must run."""
    losses: list[Tensor] = []

    def forward() -> object:
        with arithmetic(peer.device, precision):
            losses.append(peer.loss())
        return None

    def backward() -> object:
        losses.pop().backward()
        return None

    def update() -> object:
        peer.optimizer.step()
        peer.optimizer.zero_grad(set_to_none=True)
        return None

    return {"forward": forward, "backward": backward, "update": update}


LIMIT_HEADINGS = (
    "windows", "dtype", "windows/s", "step ms", "forward", "backward", "update", "% update", "GFLOP", "limit GFLOP/s",
    "% limit", "% without update",
)  # fmt: skip
OUTSIDE = "outside of operations"
"""Time outside of operations: Python, kernel launches, waiting."""


def figures_row(task: Task, precision: str, figures: StepFigures) -> Row:
    """Return a step's row, with times in ms."""
    row: Row = {
        "look_back": task.context_length,
        "horizon": task.horizon,
        "batch": task.batch,
        "channels": task.channels,
        "precision": precision,
        "repetitions": figures.step.repetitions,
        "windows_per_s": task.batch / figures.step.median,
    }
    for name in ("step", "forward", "backward", "update"):
        times = getattr(figures, name)
        row |= {f"{name}_median_ms": 1e3 * times.median}
        row |= {f"{name}_lower_ms": 1e3 * times.lower, f"{name}_upper_ms": 1e3 * times.upper}
    return row | {
        "operations": figures.operations,
        "product_gflops_before": figures.products[0] / 1e9,
        "product_gflops_after": figures.products[1] / 1e9,
        "share_of_product": figures.share,
        "share_of_product_without_update": figures.share_without_update,
        "update_share": figures.update_share,
    }


def operation_rows(task: Task, precision: str, operations: Sequence[Operation], step_seconds: float) -> list[Row]:
    """Return a row per operation with its fraction of the step, and a row for the time outside of operations."""
    outside = max(0.0, step_seconds - sum(operation.seconds for operation in operations))
    return [
        {
            "look_back": task.context_length,
            "horizon": task.horizon,
            "batch": task.batch,
            "precision": precision,
            "operation": operation.name,
            "kind": operation.kind,
            "calls": operation.calls,
            "ms": 1e3 * operation.seconds,
            "share_of_step": operation.seconds / step_seconds,
        }
        for operation in [*operations, Operation(OUTSIDE, REST, 0, outside)]
        if operation.seconds > 0
    ]


def limit_table(rows: Sequence[Row]) -> Table:
    """Return the table of the steps and their limit."""
    notes = (
        "limit: the fastest matrix product of the encoder layer (projection, into d_ff, out of d_ff) in the same "
        "dtype; the higher rate of two measurements, right before and right after the steps",
        "GFLOP: products, convolutions and attention of a step, forward and backward; a multiplication with its "
        "addition counts as 2; forward, backward and update are timed separately, in turn with whole steps",
    )
    title = f"Our training step and the matrix product, batch {rows[0]['batch']}"
    return Table(title, LIMIT_HEADINGS, [_limit_cells(r) for r in rows], notes)


def operation_tables(rows: Sequence[Row], top: int) -> Iterator[Table]:
    """Yield a table per step with the `top` operations and a note on the totals by kind."""
    headings = ("operation", "kind", "calls", "ms", "% of step")
    for key in dict.fromkeys(_step_of(row) for row in rows):
        shown = [row for row in rows if _step_of(row) == key]
        longest = sorted(shown, key=lambda row: -row["ms"])[:top]
        cells = [
            [row["operation"], row["kind"], str(row["calls"]), three_digits(row["ms"]), per_cent(row["share_of_step"])]
            for row in longest
        ]
        kinds = {kind: sum(row["share_of_step"] for row in shown if row["kind"] == kind) for kind in (*KINDS, REST)}
        note = ", ".join(f"{kind} {per_cent(share)} %" for kind, share in kinds.items())
        lines = (f"total: {note}; from torch's profiler, which adds time, relative to the median step without it",)
        yield Table(f"Time of a step by operation, {key}", headings, cells, lines)


def _step_of(row: Row) -> str:
    return f"{row['look_back']:,} → {row['horizon']:,}, batch {row['batch']}, {row['precision']}"


def _limit_cells(row: Row) -> list[str]:
    width = spread((row["step_upper_ms"] - row["step_lower_ms"]) / 2)
    return [
        f"{row['look_back']:,} → {row['horizon']:,}",
        row["precision"],
        three_digits(row["windows_per_s"]),
        f"{three_digits(row['step_median_ms'])} ±{width}",
        *(three_digits(row[f"{part}_median_ms"]) for part in ("forward", "backward", "update")),
        per_cent(row["update_share"]),
        three_digits(row["operations"] / 1e9),
        three_digits(max(row["product_gflops_before"], row["product_gflops_after"])),
        *(per_cent(row[key]) for key in ("share_of_product", "share_of_product_without_update")),
    ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_task_options(parser)
    add = parser.add_argument
    add("--attention", default="probsparse", help="such as linear or probsparse:factor=3 (default: %(default)s)")
    add("--repetitions", type=positive, default=7, help="number of timed steps (default: %(default)s)")
    add("--top", type=positive, default=12, help="number of operations in the table (default: %(default)s)")
    add_run_options(parser)


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Measure, write and print; raise `InputError` before any output if an option is wrong."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device, torch.float32)
    preset, attention = parse_preset(options.model), parse(options.attention, "--attention")
    tasks = [Task(past, horizon, options.batch, options.channels) for past, horizon in options.windows]
    networks = [build_ours(preset, attention, task) for task in tasks]
    facts = facts_of(device, " and ".join(options.dtypes), arguments, "benchmarks.step")
    folder = open_folder(options.output)
    rows: list[Row] = []
    operations: list[Row] = []
    with progress(len(tasks) * len(options.dtypes), quiet=options.quiet) as (say, advance):
        for task, network in zip(tasks, networks, strict=True):
            peer = our_peer(network, task.draw(device))
            for precision in options.dtypes:
                say(f"{task.label}, {precision}")
                figures, step = measure_step(network, peer, preset, precision, repetitions=options.repetitions)
                rows.append(figures_row(task, precision, figures) | facts)
                operations += operation_rows(task, precision, breakdown(step, device), figures.step.median)
                write_unfinished(folder, rows)
                advance(1)
    tables = [limit_table(rows), *operation_tables(operations, options.top)]
    head = heading_of("A training step and its matrix-product limit", facts, f"{options.model}, {attention.label}.")
    write_record(folder, head, tables, {CASES: rows, OPERATIONS: operations})
    print_report(folder, tables, quiet=options.quiet)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark for the command line; return the exit code."""
    return call("benchmarks.step", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    sys.exit(main())
