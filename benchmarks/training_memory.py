"""Memory, time and graph of each attention in training: `python -m benchmarks.training_memory`.

`--against` names another checkout of the repository: its mechanisms are measured in turn with those of this one.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from forecast.common.memory import peak_bytes
from forecast.common.timing import Spread, interleave, seconds_of

CPU = torch.device("cpu")
MECHANISMS = ("full", "probsparse", "linear", "efficient", "taylor", "mean")
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
    with package_of(checkout):
        return _builder()


def _builder() -> Build:
    attention, parsing = (importlib.import_module(f"forecast.attention{name}") for name in ("", "._parsing"))
    classes = {name: attention.find(name) for name in MECHANISMS}
    arguments = {name: parsing.configured("attention", name) for name in MECHANISMS}

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


def graphs_of(mechanism: nn.Module, width: int) -> int:
    """Return the number of graphs that torch.compile makes for `GRAPH_LENGTHS`."""
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, _: object) -> Any:
        graphs.append(graph)
        return graph.forward

    heads: Any = mechanism.num_heads
    compiled = torch.compile(mechanism, backend=backend)
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=2 * len(GRAPH_LENGTHS)):
        for length in GRAPH_LENGTHS:
            compiled(*(torch.randn(1, heads, length, width) for _ in range(3)))
    return len(graphs)


def measure(builds: dict[str, Build], name: str, causal: bool, options: argparse.Namespace) -> list[str]:
    """Return the row of a mechanism: peaks, times, their ratio, nodes and graphs, one value per checkout."""
    sizes = {"num_heads": options.heads, "head_dim": options.head_dim, "max_key_length": options.length}
    torch.manual_seed(0)
    shape = (1, options.heads, options.length, options.head_dim)
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(shape)
    built = {label: build(name, **sizes, causal=causal) for label, build in builds.items()}
    runs = {label: partial(pass_of, mechanism, inputs, gradient) for label, mechanism in built.items()}
    for run in runs.values():
        run()
    unit = gradient.nbytes
    peaks = [peak_bytes(run, CPU) / unit for run in runs.values()]
    times = interleave(
        {label: partial(seconds_of, run, CPU) for label, run in runs.items()},
        least=options.rounds, most=options.rounds, seconds=0,
    )  # fmt: skip
    spreads = [Spread.of(seconds) for seconds in times.values()]
    columns = [peaks, [1e3 * spread.median for spread in spreads]]
    cells = [" / ".join(f"{value:.3g}" for value in column) for column in columns]
    cells.append(_ratio(*times.values()) if len(times) > 1 else "")
    if options.graphs:
        cells.append(" / ".join(str(nodes_of(mechanism.eval(), inputs)) for mechanism in built.values()))
        cells.append(" / ".join(str(graphs_of(mechanism, options.head_dim)) for mechanism in built.values()))
    return [f"{name}{' causal' * causal}", *cells]


def _ratio(before: Sequence[float], now: Sequence[float]) -> str:
    """Return the median ratio of the pairs, and its quartiles."""
    ratios = sorted(b / a for a, b in zip(before, now, strict=True))
    count = len(ratios)
    return f"{median(ratios):.2f} ({ratios[count // 4]:.2f} to {ratios[(3 * count - 1) // 4]:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure on the command line, and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_memory", description=__doc__)
    parser.add_argument("--against", type=Path, help="folder of another checkout, measured first in each pair")
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7, help="pairs of passes")
    parser.add_argument("--graphs", action="store_true", help="also count the nodes of the exported graph, and graphs")
    options = parser.parse_args(arguments)
    builds = {"now": builder_of(None)}
    if options.against is not None:
        builds = {"before": builder_of(options.against.resolve()), **builds}
    rows = [measure(builds, name, causal, options) for name in options.mechanisms for causal in (False, True)]
    headings = ["attention", "peak, tensors", "ms", "ratio of times"]
    headings += [f"nodes at {options.length}", f"graphs for {len(GRAPH_LENGTHS)} lengths"] * options.graphs
    print(f"{options.length} tokens, {options.heads} heads of {options.head_dim}, both passes, {' / '.join(builds)}")
    for row in (headings, *rows):
        print(" | ".join(row))


if __name__ == "__main__":
    main()
