"""Tables of the declarations of mechanisms and of the checks."""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from forecast.attention._costs import cost_text
from forecast.check.candidate import Candidate
from forecast.check.suite import CHECKS, Finding
from forecast.common.tables import Table, table, write_between

HEADINGS = ("time", "memory", "causal", "key mask", "mask per query", "cross", "deterministic")
BEGIN = "<!-- mechanisms: written by python -m forecast.check --write README.md -->"
END = "<!-- /mechanisms -->"


def declaration(candidate: Candidate) -> list[str]:
    """Return the declarations of a mechanism, one cell per heading."""
    kind = candidate.kind
    return [
        cost_text(kind.time_cost),
        cost_text(kind.memory_cost),
        kind.causal_ability,
        "yes",  # required of all mechanisms
        "yes" if kind.accepts_pair_mask else "no",
        "yes" if kind.cross else "no",
        "yes" if kind.deterministic else "in evaluation",
    ]


def markdown(candidates: Sequence[Candidate]) -> str:
    """Return the declarations as a Markdown table."""
    rows = [[f"`{candidate.name}`", *declaration(candidate)] for candidate in candidates]
    return table(["`attention=`", *HEADINGS], rows)


def write_markdown(path: Path, candidates: Sequence[Candidate]) -> None:
    """Write the table between the two marks of the file."""
    write_between(path, BEGIN, END, markdown(candidates))


NAMED = 3
"""Largest number of checks that the line of an error names."""

NOT_PROMISED = "\N{EN DASH}"


def print_tables(candidates: Sequence[Candidate], findings: Sequence[Sequence[Finding]]) -> None:
    """Print both tables, without wrapping in a narrow terminal."""
    console = Console()
    first = candidates[0]
    for title, content in (
        ("declared by each class", declared_table(candidates)),
        (f"checked on {first.device}, torch {torch.__version__}, length {first.length}", measured_table(findings)),
    ):
        print(title)
        rendered = content.to_terminal()
        width = Console(width=10_000).measure(rendered).maximum
        Console(width=max(console.width, width)).print(rendered)
    print(f"✓ within the bound, ✗ outside it, {NOT_PROMISED} not promised; errors are relative to the largest value")


def declared_table(candidates: Sequence[Candidate]) -> Table:
    """Return the table of declarations, one row per mechanism."""
    cells = [[candidate.name, *declaration(candidate)] for candidate in candidates]
    return Table("", ("attention", *HEADINGS), cells, words=len(HEADINGS) + 1)


def measured_table(findings: Sequence[Sequence[Finding]]) -> Table:
    """Return the table of checks, one row per check and one column per mechanism."""
    headings = ("check", "bound", *(row[0].mechanism for row in findings))
    cells = [[check.name, short(check.bound), *map(_cell, row)] for check, *row in zip(CHECKS, *findings, strict=True)]
    return Table("", headings, cells)


def failures(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each failed check of a mechanism; checks that end with the same error share one line."""
    failed = [finding for finding in findings if not finding.passed]
    checks = {finding.error: [each.check.name for each in failed if each.error == finding.error] for finding in failed}
    lines = [
        _error_line(finding, checks[finding.error]) if finding.error else _value_line(finding) for finding in failed
    ]
    return list(dict.fromkeys(lines))


def _value_line(finding: Finding) -> str:
    check = finding.check
    reason = f"{short(finding.value)} is not within {short(check.bound)}"
    return f"fail: attention={finding.mechanism}: {check.name}: {reason} (promised: {check.promise})"


def _error_line(finding: Finding, checks: Sequence[str]) -> str:
    more = f" and {len(checks) - NAMED} more checks" if len(checks) > NAMED else ""
    return f"fail: attention={finding.mechanism}: {'; '.join(checks[:NAMED])}{more}: {finding.error}"


def short(value: float | None) -> str:
    """Format a value in at most seven characters."""
    if value is None:
        return NOT_PROMISED
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1e}"


def _cell(finding: Finding) -> str:
    if finding.value is None:
        return short(None)
    return f"{'✓' if finding.passed else '✗'} {'error' if finding.error else short(finding.value)}"
