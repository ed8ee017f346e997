"""Tables of the declarations of mechanisms and of the checks."""

from collections.abc import Collection, Mapping, Sequence

import torch
from rich.console import Console

from forecast.attention._costs import cost_text
from forecast.check.candidate import Candidate
from forecast.check.suite import CHECKS, Check, Finding
from forecast.common.tables import Table, table
from forecast.kernels.fused import VARIABLE

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


NAMED = 3
"""Largest number of checks that the line of an error names."""

NOT_PROMISED = "not promised"
NO_FORMULA = "none"
OWN_MAP = "*"


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
    print("✓ within the bound, ✗ outside it; errors are relative to the largest value")
    if without := names_without_formula(findings):
        print(f"{OWN_MAP} for {', '.join(without)}: its own map, since its file has no formula")


def forms_line(forms: Mapping[str, Collection[str]], are_on: bool) -> str:
    """Return the line that says for which mechanisms a kernel ran, given the forms that ran for each."""
    with_kernel = [name for name, ran in forms.items() if "kernel" in ran]
    plain = ", ".join(name for name in forms if name not in with_kernel)
    if with_kernel:
        rest = f"; only plain forms for {plain}" if plain else ""
        return f"kernels ran where they apply for {', '.join(with_kernel)}{rest}"
    reason = (
        "they do not apply here"
        if are_on
        else f"not measured on a GPU yet: {VARIABLE}=1 turns them on where Triton is installed"
    )
    return f"no kernel ran ({reason}): only plain forms for {plain}"


def declared_table(candidates: Sequence[Candidate]) -> Table:
    """Return the table of declarations, one row per mechanism."""
    cells = [[candidate.name, *declaration(candidate), _limits(candidate)] for candidate in candidates]
    return Table("", ("attention", *HEADINGS, "limits"), cells, words=len(HEADINGS) + 2)


def _limits(candidate: Candidate) -> str:
    """Return what a class declares not to promise, beside the columns of the table."""
    kind = candidate.kind
    limits = {
        "local": kind.local,
        "weights may vanish": candidate.weights_may_vanish,
        "heads differ": not kind.heads_alike,
    }
    return ", ".join(limit for limit, declared in limits.items() if declared) or "none"


def measured_table(findings: Sequence[Sequence[Finding]]) -> Table:
    """Return the table of checks, one row per check and one column per mechanism."""
    headings = ("check", "compared with", "bound", *(row[0].mechanism for row in findings))
    cells = [
        [check.name, _compared_with(check, row), short(check.bound), *map(_cell, row)]
        for check, *row in zip(CHECKS, *findings, strict=True)
    ]
    return Table("", headings, cells, words=2)


def _compared_with(check: Check, row: Sequence[Finding]) -> str:
    """Return what stood behind the values of a check."""
    if check.against != "oracle":
        return check.against
    has_formula = {finding.has_formula for finding in row}
    return {True: "formula", False: "own map"}[has_formula.pop()] if len(has_formula) == 1 else f"formula{OWN_MAP}"


def names_without_formula(findings: Sequence[Sequence[Finding]]) -> list[str]:
    """Return the mechanisms whose file has no formula."""
    return [row[0].mechanism for row in findings if any(finding.no_formula for finding in row)]


def success(findings: Sequence[Sequence[Finding]]) -> list[str]:
    """Return the closing lines if no check fails; they name the mechanisms that have no formula."""
    without = names_without_formula(findings)
    names = [row[0].mechanism for row in findings if row[0].mechanism not in without]
    lines = [f"all promised checks pass for {', '.join(names)}"] if names else []
    return [
        *lines,
        *(
            f"checks pass for {name} against its own map only (formula: none), so its equation is not checked: "
            f"add a function `formula` to forecast/attention/{name}.py"
            for name in without
        ),
    ]


def failures(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each failed check of a mechanism; checks that end with the same error share one line.

    The lines that say most about the cause come first.
    """
    names = {finding.check.name for finding in findings if not finding.passed}
    failed = sorted(
        (finding for finding in findings if not finding.passed), key=lambda finding: _distance(finding, names)
    )
    checks = {finding.error: [each.check.name for each in failed if each.error == finding.error] for finding in failed}
    lines = [
        _error_line(finding, checks[finding.error]) if finding.error else _value_line(finding) for finding in failed
    ]
    return list(dict.fromkeys(lines))


def _distance(finding: Finding, failed: Collection[str]) -> int:
    """Return how far a failed check is from the cause, given the names of all failed ones.

    An error names its line, and a broken invariance what is mixed up. After them come the first formula that fails and
    the counts. What compares with the formula at other sizes, masks or precisions follows from these.
    """
    check = finding.check
    if finding.error:
        return 0
    if check.against in ("invariance", "contract"):
        return 1
    if check.name == next((name for name in FORMULAS if name in failed), None) or check.against == "count":
        return 2
    return 3


FORMULAS = tuple(check.name for check in CHECKS if check.against in ("formula", "own map"))


def _value_line(finding: Finding) -> str:
    check = finding.check
    reason = f"{short(finding.value or 0)} is not within {short(check.bound)}"
    explained = f"; {finding.detail}" if finding.detail else ""
    return f"fail: attention={finding.mechanism}: {check.name}: {reason}{explained} (promised: {check.promise})"


def _error_line(finding: Finding, checks: Sequence[str]) -> str:
    more = f" and {len(checks) - NAMED} more checks" if len(checks) > NAMED else ""
    return f"fail: attention={finding.mechanism}: {'; '.join(checks[:NAMED])}{more}: {finding.error}"


def short(value: float) -> str:
    """Format a value in at most seven characters."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1e}"


def _cell(finding: Finding) -> str:
    if finding.no_formula:
        return NO_FORMULA
    if finding.value is None:
        return NOT_PROMISED
    return f"{'✓' if finding.passed else '✗'} {'error' if finding.error else short(finding.value)}"
