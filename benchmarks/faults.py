"""Faults planted in the program, one at a time: which tier of the tests finds each.

A fault changes one operator, number, truth value or condition of a module of `forecast/`. Faults are drawn by seed, the
same number from each folder. Each is tried in a git worktree; rows that the record has are not tried again.

The affected tests run with one fault. The faults that they do not find are then planted together for the whole quick
tier, and those that are left once more for everything else. The tests that fail are tried with each of them alone.
"""

import argparse
import ast
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from benchmarks.published.record import add_row, read_rows
from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.spreadsheet import write_frame

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "faults" / "found.csv"

AFFECTED = ["--affected", "--ignore=tests/end_to_end", "--ignore=tests/benchmarks"]
"""Words of pytest for the part of the quick tier that runs with a single fault."""

QUICK: tuple[list[str], ...] = ([],)
"""Words of pytest for the quick tier."""

LATER = (["-m", "slow"], ["tests/end_to_end"], ["tests/benchmarks"])
"""Words of pytest for everything else."""

REST, WAITING = "quick or later", "later"
"""Tiers of a fault that the affected tests do not find, and of one that the quick tier does not find, meanwhile."""

TRIES = 3
"""Tests of a stage that may fail for another reason than the fault."""

NO_TESTS = 5
"""Exit code of pytest where a stage selects no test."""

SECONDS = 1500.0
"""Time limit of a stage: a fault without an end counts as found."""

SWAPPED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
"""Operators, as written and as planted."""

NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
"""Functions that are exchanged."""


@dataclass(frozen=True)
class Fault:
    """A change of one place: characters `start` to `end` of a file become `after`."""

    file: str
    line: int
    before: str
    after: str
    start: int
    end: int

    def plant(self, root: Path) -> None:
        """Write the file with the fault."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        assert text[self.start : self.end] == self.before
        path.write_text(text[: self.start] + self.after + text[self.end :], encoding="utf-8")


class _Places(ast.NodeVisitor):
    """Collect the places of a file: neither annotations nor decorators, texts, or what only a type checker runs."""

    def __init__(self, file: str, text: str) -> None:
        self.faults: list[Fault] = []
        self._file, self._text = file, text
        lines = text.splitlines(keepends=True)
        self._lines = lines
        self._starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.expr) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno or 0, node.end_col_offset or 0)

    def _add(self, line: int, start: int, end: int, after: str) -> None:
        self.faults.append(Fault(self._file, line, self._text[start:end], after, start, end))

    def _swap(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        before, after = SWAPPED.get(type(operator), ("", ""))
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._text[start:end]
        if before and re.fullmatch(rf"[\s()]*{re.escape(before)}[\s()]*", gap):
            place = start + gap.index(before)
            self._add(left.end_lineno or 0, place, place + len(before), after)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        words = ast.unparse(node.test)
        if "TYPE_CHECKING" in words or "__name__" in words:
            return
        start, end = self._span(node.test)
        self._add(node.lineno, start, end, f"not ({self._text[start:end]})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._swap(node.left, node.ops[0], node.comparators[0])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (
            isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", 0), str)
            for part in (node.left, node.right)
        )
        if not any(texts):
            self._swap(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._swap(node.values[0], node.op, node.values[1])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, end = self._span(node)
            self._add(node.lineno, start, end, f"bool({self._text[slice(*self._span(node.operand))]})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in NAMES:
            self._add(node.lineno, *self._span(node.func), NAMES[node.func.id])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node.lineno, *self._span(node), str(not node.value))
        elif isinstance(node.value, int):
            self._add(node.lineno, *self._span(node), str(node.value + 1))
        elif isinstance(node.value, float):
            self._add(node.lineno, *self._span(node), repr(node.value * 2 or 1.0))


def places(file: str, text: str) -> list[Fault]:
    """Return the faults that can be planted in a file, in order."""
    visitor = _Places(file, text)
    visitor.visit(ast.parse(text))
    return sorted(visitor.faults, key=lambda fault: (fault.start, fault.end))


def draw(root: Path, seed: int, count: int) -> list[Fault]:
    """Draw faults without repetition, the folders of `forecast/` in turn."""
    generator = random.Random(seed)
    folders: dict[str, list[Fault]] = {}
    for path in sorted((root / "forecast").rglob("*.py")):
        file = path.relative_to(root).as_posix()
        folder = file.split("/")[1] if file.count("/") > 1 else ""
        folders.setdefault(folder, []).extend(places(file, path.read_text(encoding="utf-8")))
    queues = [generator.sample(faults, len(faults)) for faults in folders.values() if len(faults) >= count]
    return [queues[number % len(queues)][number // len(queues)] for number in range(count)]


@dataclass(frozen=True)
class Row:
    """One line of the record."""

    seed: int
    number: int
    file: str
    line: int
    change: str
    found_by: str
    test: str
    commit: str


def affected_test(fault: Fault, program: Path, workers: int) -> str:
    """Return the first affected test of the quick tier that finds the fault; empty if none does.

    A test that fails without the fault too, or that passes when it is run again, is left out and the stage repeated.
    """
    left_out: list[str] = []
    while len(left_out) < TRIES:
        without = [f"--deselect={test}" for test in left_out]
        with planted([fault], program):
            code, tests = _run(["-x", "-n", str(workers), *AFFECTED, *without], program)
        if code in (0, NO_TESTS):
            break
        if not tests:
            return f"exit code {code}"
        if _finds(tests[0], fault, program):
            return tests[0]
        left_out.append(tests[0])
    return ""


def found_together(
    faults: Sequence[Fault], program: Path, workers: int, stages: Sequence[Sequence[str]]
) -> dict[Fault, str]:
    """Return a test for each fault that these stages find.

    All faults are planted at once. The tests that fail, and pass without a fault, are then tried with each fault alone.
    """
    found: dict[Fault, str] = {}
    left = list(faults)
    while left:
        together = apart(left)
        with planted(together, program):
            ended = [_run(["-n", str(workers), *words], program) for words in stages]
        unended = [code for code, _ in ended if code not in (0, 1, NO_TESTS)]
        if unended and len(together) > 1:  # one of them stops the stage
            half = len(together) // 2
            found |= found_together(together[:half], program, workers, stages)
            found |= found_together(together[half:], program, workers, stages)
        elif unended:
            healthy = [_run(["-n", str(workers), *words], program)[0] for words in stages]
            if all(code in (0, 1, NO_TESTS) for code in healthy):
                found[together[0]] = f"exit code {unended[0]}"
        else:
            found |= _each_alone(together, [test for _, tests in ended for test in tests], program)
        done = found if any(fault in found for fault in together) else together  # a fault may hide another
        left = [fault for fault in left if fault not in done]
    return found


def _each_alone(faults: Sequence[Fault], failed: Sequence[str], program: Path) -> dict[Fault, str]:
    """Return the first of the failed tests that fails with each fault alone, of those that pass without a fault."""
    tests = list(dict.fromkeys(test.partition("[")[0] for test in failed))
    if not tests:
        return {}
    code, again = _run(["-n", "0", *tests], program)
    if code not in (0, 1):
        raise InputError(f"{len(tests)} tests that failed with faults end with exit code {code} without one")
    unsteady = {test.partition("[")[0] for test in again}
    steady = [test for test in tests if test not in unsteady]
    found: dict[Fault, str] = {}
    for fault in faults if steady else ():
        with planted([fault], program):
            code, own = _run(["-x", "-n", "0", *steady], program)
        if code not in (0, NO_TESTS):
            found[fault] = own[0] if own else f"exit code {code}"
    return found


def apart(faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults whose places do not overlap with an earlier one's."""
    chosen: list[Fault] = []
    for fault in faults:
        if all(fault.file != one.file or fault.end <= one.start or one.end <= fault.start for one in chosen):
            chosen.append(fault)
    return chosen


@contextmanager
def planted(faults: Sequence[Fault], program: Path) -> Iterator[None]:
    """Plant faults, and restore the program."""
    try:
        for fault in sorted(faults, key=lambda fault: fault.start, reverse=True):  # places after it stay where they are
            fault.plant(program)
        yield
    finally:
        _restore(program)


def _finds(test: str, fault: Fault, program: Path) -> bool:
    """Return whether the test fails with the fault alone and passes without it."""
    again = ["-x", "-n", "0", test.partition("[")[0]]
    with planted([fault], program):
        fails = _run(again, program)[0] != 0
    return fails and _run(again, program)[0] == 0


def _run(words: Sequence[str], program: Path) -> tuple[int, list[str]]:
    """Return the exit code of pytest, and the tests that failed."""
    environment = {**os.environ, "PYTHONPATH": str(program), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", *words]
    try:
        ended = subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return 124, []
    return ended.returncode, re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", ended.stdout, re.MULTILINE)


def _restore(program: Path) -> None:
    subprocess.run(["git", "checkout", "--quiet", "--", "forecast"], cwd=program, check=True)


@contextmanager
def worktree(folder: Path) -> Iterator[Path]:
    """Yield a worktree of the current commit in `folder`, and remove it."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--force", "--detach", str(folder)], cwd=ROOT, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)


def summary(rows: pd.DataFrame) -> str:
    """Return one line on the rows: faults, how many are found, and by which tier."""
    found = rows["found_by"].fillna("")
    quick, everything = int((found == "quick").sum()), int((found != "").sum())
    return f"{len(rows)} faults; all tests find {everything}, the quick tier {quick}"


def main(argv: Sequence[str] | None = None) -> int:
    """Try the faults that the record lacks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest")
    parser.add_argument("--folder", type=Path, default=ROOT.parent / "faulty", help="where the worktree lies meanwhile")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--dry-run", action="store_true", help="print the faults alone")
    options = parser.parse_args(argv)
    faults = draw(ROOT, options.seed, options.count)
    if options.dry_run:
        for number, fault in enumerate(faults):
            print(f"{number:3} {fault.file}:{fault.line} {fault.before!r} -> {fault.after!r}")
        return 0
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    rows = read_rows(options.record, *Row.__annotations__)
    known = set(rows["number"][rows["seed"] == options.seed])
    with worktree(options.folder.resolve()) as program:
        for number, fault in enumerate(faults):
            if number in known:
                continue
            test = affected_test(fault, program, options.workers)
            change = f"`{fault.before}` -> `{fault.after}`"
            tier = "quick" if test else REST
            row = Row(options.seed, number, fault.file, fault.line, change, tier, test, commit)
            add_row(options.record, asdict(row))
            print(f"{number:3} {fault.file}:{fault.line} {change}\n    {tier} {test}", flush=True)
        for waiting, stages, tier, otherwise in ((REST, QUICK, "quick", WAITING), (WAITING, LATER, "all", "")):
            rows = read_rows(options.record)
            own = rows["seed"] == options.seed
            left = [int(number) for number in rows["number"][own & (rows["found_by"] == waiting)]]
            found = found_together([faults[number] for number in left], program, options.workers, stages)
            for number in left:
                test = found.get(faults[number], "")
                rows.loc[own & (rows["number"] == number), ["found_by", "test"]] = tier if test else otherwise, test
            with replacing(options.record) as file:
                write_frame(file, rows, index=False)
            print(f"{tier}: {len(found)} of {len(left)}", flush=True)
    print(summary(rows[own]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
