"""The tests that a change affects: `pytest --affected`.

A test file is affected if it imports a changed module, or a module at most `REACH` imports above one. End-to-end tests
are chosen by the folder of the changed module. Files that are no modules have a table of paths.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]

REACH = 1
"""Imports from a changed module up to a module whose tests run too; the quick start stands behind them."""

END_TO_END = {
    "data": [
        "test_bad_input.py", "test_known_leaks.py", "test_known_roles.py", "test_leaks.py",
        "predict/test_empty_labels.py", "predict/test_gaps.py", "predict/test_time_columns.py",
    ],
    "tables": [
        "test_bad_input.py", "predict/test_empty_labels.py", "predict/test_gaps.py", "predict/test_time_columns.py",
    ],
    "predict": ["predict/", "test_security.py", "test_strangers.py"],
    "runs": ["resume/", "test_security.py", "test_storage.py", "test_strangers.py", "training/test_run_folder.py"],
    "training": ["resume/", "sweep/", "training/", "test_endings.py", "test_interruption.py"],
}  # fmt: skip
"""End-to-end tests of a folder of `forecast/`: a change elsewhere runs none."""

TESTS_OF_FILES = {
    "conf/attention/": ["attention/", "check/", "test_conf.py", "test_mechanism_pages.py"],
    "conf/": ["test_conf.py", "test_docs.py", "training/", "quickstart/"],
    "train.py": ["quickstart/", "training/test_command_line.py"],
    "data/": ["data/test_presets.py", "test_docs.py"],
    "docs/": ["test_docs.py", "test_mechanism_pages.py", "test_plain_english.py"],
    "mkdocs.yml": ["test_docs.py"],
    "benchmarks/": ["benchmarks/", "test_docs.py"],
    ".ci/": [],
    ".git": [],
}
"""Tests of files that are no modules, by the start of the path; the first that fits counts."""

PROSE = ["test_docs.py", "test_plain_english.py"]
"""Tests of Markdown outside these folders."""


def import_graph(*packages: str) -> grimp.ImportGraph:
    """Return the import graph, in which `forecast.attention` imports the mechanisms that it loads by their names."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    for mechanism in graph.find_children("forecast.attention"):
        if "._" not in mechanism and not graph.direct_import_exists(importer=mechanism, imported="forecast.attention"):
            graph.add_import(importer="forecast.attention", imported=mechanism)
    return graph


def changed_files(since: str, root: Path = ROOT) -> list[str]:
    """Return the files that differ from the commit `since`, committed or not, and those that git does not track.

    Raises
    ------
    ValueError
        If git does not know the commit.
    """
    names: set[str] = set()
    for words in (["diff", "--name-only", "--no-renames", since], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"--affected={since}: {done.stderr.strip()}")
        names.update(done.stdout.splitlines())
    return sorted(names)


def affected_tests(files: Iterable[str], root: Path = ROOT) -> list[str] | None:
    """Return the affected test files and folders, relative to `tests/`; None: all, since no rule knows a file."""
    graph = import_graph("forecast", "tests", "benchmarks")
    selected: set[str] = set()
    for file in files:
        tests = _of_module(file, graph) if file.endswith(".py") and "/" in file else _of_other(file)
        if tests is None:
            return None
        selected.update(tests)
    return sorted(name for name in selected if (root / "tests" / name).exists())


def _of_other(file: str) -> list[str] | None:
    for start, tests in TESTS_OF_FILES.items():
        if file.startswith(start):
            return tests
    return PROSE if file.endswith(".md") else None


def _of_module(file: str, graph: grimp.ImportGraph) -> set[str] | None:
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if file.endswith("conftest.py"):
        folder = file.removeprefix("tests/").removesuffix("conftest.py")
        return {folder} if folder else None
    package, *rest = module.split(".")
    tests: set[str] = set()
    if package == "forecast":
        tests.update(f"end_to_end/{name}" for name in END_TO_END.get(rest[0] if rest else "", []))
        tests.update(["quickstart/"] if tests else [])
    elif package == "benchmarks":
        tests.update(TESTS_OF_FILES["benchmarks/"])
    if module not in graph.modules:  # it was removed: its tests are those that changed with it
        return tests
    near = _above({module}, graph, lambda name: not name.startswith("tests."), REACH)
    using = _above(near, graph, lambda name: name.startswith("tests."))
    files = (name.removeprefix("tests.").replace(".", "/") + ".py" for name in using)
    return tests | {name for name in files if name.rpartition("/")[2].startswith("test_") and _is_unit(name, module)}


def _is_unit(name: str, module: str) -> bool:
    """Return whether a test file is outside the end-to-end tests, or is itself what changed."""
    return not name.startswith("end_to_end/") or module.startswith("tests.")


def _above(
    modules: set[str], graph: grimp.ImportGraph, keep: Callable[[str], bool], most: float = math.inf
) -> set[str]:
    """Return the modules and those that import them through at most `most` imports, as far as `keep` admits them."""
    reached, front = set(modules), set(modules)
    while front and most > 0:
        users = {user for name in front for user in graph.find_modules_that_directly_import(name)}
        front = {user for user in users if keep(user)} - reached
        reached |= front
        most -= 1
    return reached
