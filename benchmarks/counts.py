"""Sizes and arrows of the program: `python -m benchmarks.counts`, in the checkout of any commit."""

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]

LONG, LONGEST, MANY = 40, 60, 8
"""Lines of a long function and of one that is too long, without the docstring, and arguments of a function."""

WORD = "known_covariates"
"""A part of the data contract: each module that names it writes a part of the contract."""


def functions(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield lines without the docstring, and number of arguments without `self`, of each function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            yield lines, len(names) - (names[:1] in (["self"], ["cls"]))


def arrows(package: str) -> tuple[int, int, int]:
    """Return the rooms of a package, the arrows between them, and the modules of a circle, type checking included."""
    graph = grimp.build_graph(package, cache_dir=None)

    def room(module: str) -> str:
        return module.split(".")[1] if module.count(".") else ""

    pairs = {
        (room(module), room(other))
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
        if room(module) != room(other)
    }
    rooms = [module for module in graph.find_children(package) if graph.find_children(module)]
    try:
        TopologicalSorter({each: graph.find_modules_directly_imported_by(each) for each in graph.modules}).prepare()
        circle = 0
    except CycleError as error:
        circle = len(error.args[1]) - 1
    return len(rooms), len(pairs), circle


def count(root: Path) -> dict[str, int]:
    """Return the numbers of the program in the checkout `root`, which is importable."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "forecast").rglob("*.py"))}
    every = [each for text in texts.values() for each in functions(ast.parse(text))]
    rooms, pairs, circle = arrows("forecast")
    return {
        "lines": sum(text.count("\n") for text in texts.values()),
        "modules": len(texts),
        f"functions above {LONG} lines": sum(lines > LONG for lines, _ in every),
        f"functions above {LONGEST} lines": sum(lines > LONGEST for lines, _ in every),
        f"functions with more than {MANY} arguments": sum(arguments > MANY for _, arguments in every),
        f"modules that name {WORD}": sum(bool(re.search(rf"\b{WORD}\b", text)) for text in texts.values()),
        "files of data": len(list((root / "forecast" / "data").glob("*.py"))),
        "files of tables": len(list((root / "forecast" / "tables").glob("*.py"))),
        "rooms": rooms,
        "arrows between rooms": pairs,
        "modules in a circle": circle,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout, whose `forecast` is the one imported")
    for name, number in count(parser.parse_args(arguments).root.resolve()).items():
        print(f"{name:<45} {number:>7,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
