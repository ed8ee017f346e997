"""Memory, time and graphs of each attention in training, beside those of another version of the program.

`python -m benchmarks.studies.training --against ../before --output benchmarks/records/attention/training` runs forward
and backward passes of this checkout and of `../before` in alternation. Without `--against` it measures this one alone.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor, nn

from forecast.benchmark.machine import facts_of
from forecast.benchmark.options import open_folder
from forecast.benchmark.report import CASES, heading_of, print_report, write_record
from forecast.common.cli import finish, positive
from forecast.common.errors import InputError
from forecast.common.memory import peak_bytes
from forecast.common.tables import Row, Table
from forecast.common.text import heads_of, three_digits
from forecast.common.timing import Spread, interleave, seconds_of

MODULE = "benchmarks.studies.training"
CPU = torch.device("cpu")
MECHANISMS = ("full", "probsparse", "linear", "efficient", "taylor", "mean")
NOW, BEFORE = "now", "before"

GRAPH_LENGTHS = (200, 333, 500, 700, 900, 1000, 1400, 2000)
"""Lengths at which one compiled function is called, to count its graphs."""

Build = Callable[..., nn.Module]


@contextmanager
def package_of(checkout: Path) -> Iterator[None]:
    """Import the package `forecast` from `checkout` inside the context, and restore the loaded one afterwards."""
    mine = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "forecast"}
    for name in mine:
        del sys.modules[name]
    sys.path.insert(0, str(checkout))
    try:
        yield
    finally:
        sys.path.remove(str(checkout))
        for name in [name for name in sys.modules if name.partition(".")[0] == "forecast"]:
            del sys.modules[name]
        sys.modules.update(mine)


def builder_of(checkout: Path | None) -> Build:
    """Return a function that builds a mechanism of `checkout`, or of this one, with the values of its YAML file."""
    if checkout is None:
        return _builder()
    if not (checkout / "forecast" / "attention").is_dir():
        raise InputError(f"--against {checkout}: no folder forecast/attention there: choose a checkout of the program")
    with package_of(checkout.resolve()):
        return _builder()


def _builder() -> Build:
    attention, parsing = (importlib.import_module(f"forecast.attention{name}") for name in ("", "._parsing"))
    classes = {name: attention.find(name) for name in attention.available()}
    arguments = {name: parsing.configured("attention", name) for name in classes}

    def build(name: str, **sizes: Any) -> nn.Module:
        mechanism: nn.Module = classes[name](**arguments[name], **sizes)
        return mechanism

    return build


def pass_of(mechanism: nn.Module, inputs: Sequence[Tensor], gradient: Tensor) -> object:
    """Run a forward and a backward pass; return the output and the gradients of the inputs."""
    output = mechanism(*inputs)
    return output, torch.autograd.grad(output, inputs, gradient, allow_unused=True)


def nodes_of(mechanism: nn.Module, inputs: Sequence[Tensor]) -> int:
    """Return the number of nodes in the exported graph."""
    with torch.no_grad():
        return len(torch.export.export(mechanism, tuple(x.detach() for x in inputs)).graph.nodes)


def graphs_of(mechanism: nn.Module, heads: int, width: int) -> int:
    """Return the number of graphs that torch.compile makes for `GRAPH_LENGTHS`."""
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, _: object) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(mechanism, backend=backend)
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=2 * len(GRAPH_LENGTHS)):
        for length in GRAPH_LENGTHS:
            compiled(*(torch.randn(1, heads, length, width) for _ in range(3)))
    return len(graphs)


def measure(builds: dict[str, Build], name: str, causal: bool, options: argparse.Namespace) -> Row:
    """Return the row of a mechanism: peaks in input-sized tensors, milliseconds, the ratio of the pairs, graphs."""
    sizes = {"num_heads": options.heads, "head_dim": options.head_dim, "max_key_length": options.length}
    torch.manual_seed(0)
    shape = (1, options.heads, options.length, options.head_dim)
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(shape)
    built = {label: build(name, **sizes, causal=causal) for label, build in builds.items()}
    runs = {label: partial(pass_of, mechanism, inputs, gradient) for label, mechanism in built.items()}
    for run in runs.values():
        run()
    row: Row = {"mechanism": name, "causal": causal, "length": options.length, "heads": options.heads}
    row |= {"head_dim": options.head_dim, "pairs": options.pairs}
    for label, run in runs.items():
        row[f"peak_{label}"] = round(peak_bytes(run, CPU) / gradient.nbytes, 2)
    timed = {label: partial(seconds_of, run, CPU) for label, run in runs.items()}
    times = interleave(timed, least=options.pairs, most=options.pairs, seconds=0)
    for label, seconds in times.items():
        row[f"ms_{label}"] = round(1e3 * Spread.of(seconds).median, 1)
    if BEFORE in times:
        ratios = [now / before for before, now in zip(times[BEFORE], times[NOW], strict=True)]
        row["lower"], row["ratio"], row["upper"] = (round(x, 3) for x in quantiles(ratios, n=4, method="inclusive"))
    mechanism = built[NOW].eval()
    row["nodes"] = nodes_of(mechanism, inputs)
    row["graphs"] = graphs_of(mechanism, options.heads, options.head_dim)
    return row


def table_of(rows: Sequence[Row]) -> Table:
    """Return the table of the rows: memory, time and graphs."""
    first = rows[0]
    labels = [label for label in (BEFORE, NOW) if f"peak_{label}" in first]
    cells = []
    for row in rows:
        values = [" / ".join(three_digits(row[f"{kind}_{label}"]) for label in labels) for kind in ("peak", "ms")]
        if BEFORE in labels:
            values.append(f"{row['ratio']:.2f} ({row['lower']:.2f} to {row['upper']:.2f})")
        cells.append(
            [f"{row['mechanism']}{', causal' * row['causal']}", *values, str(row["nodes"]), str(row["graphs"])]
        )
    sizes = f"{first['length']:,} tokens, {heads_of(first['heads'], first['head_dim'])}"
    both = " / ".join(labels)
    headings = ["attention", f"peak in tensors, {both}", f"ms, {both}", *["now / before"] * (BEFORE in labels)]
    headings += ["nodes", f"graphs of {len(GRAPH_LENGTHS)} lengths"]
    notes = (
        "peak: memory of both passes with the output and three gradients, in tensors of the size of an input",
        f"ratio: median and quartiles of {first['pairs']} alternating pairs",
        "nodes: of the graph exported at this length; graphs: made by torch.compile",
    )
    return Table(f"Training: {sizes}, forward and backward", tuple(headings), cells, notes, words=1)


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Measure each mechanism, causal or not; write and print the table."""
    builds = {NOW: builder_of(None)}
    if options.against is not None:
        builds = {BEFORE: builder_of(options.against), **builds}
    folder = open_folder(options.output)
    facts = facts_of(CPU, "fp32", arguments, MODULE)
    rows = [measure(builds, name, causal, options) | facts for name in options.mechanisms for causal in (False, True)]
    tables = [table_of(rows)]
    write_record(folder, heading_of("Attention in training", facts), tables, {CASES: rows})
    print_report(folder, tables, quiet=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study on the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--against", type=Path, help="folder of another checkout, measured first in each pair")
    add("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    add("--length", type=positive, default=8192, help="number of tokens (default: %(default)s)")
    add("--heads", type=positive, default=8, help="number of heads (default: %(default)s)")
    add("--head-dim", type=positive, default=64, help="width of a head (default: %(default)s)")
    add("--pairs", type=positive, default=15, help="timed passes (default: %(default)s)")
    add("--output", type=Path, help="folder for the record")
    options = parser.parse_args(given)
    return finish(lambda: run(options, given))


if __name__ == "__main__":
    sys.exit(main())
