"""What the mechanisms declare, as rows of a table, and that table in a Markdown file."""

from collections.abc import Sequence
from pathlib import Path

from forecast.check.candidate import Candidate
from forecast.common.markdown import table, write_between

HEADINGS = ("time", "memory", "causal", "key mask", "one mask a query", "cross", "deterministic")
BEGIN = "<!-- mechanisms: written by python -m forecast.check --write README.md -->"
END = "<!-- /mechanisms -->"


def declaration(candidate: Candidate) -> list[str]:
    """Give what a mechanism declares, a cell for each of `HEADINGS`."""
    kind = candidate.kind
    return [
        kind.time_cost,
        kind.memory_cost,
        kind.causal_ability,
        "yes",  # the contract of all
        "yes" if kind.accepts_pair_mask else "no",
        "yes" if kind.cross else "no",
        "yes" if kind.deterministic else "in evaluation",
    ]


def markdown(candidates: Sequence[Candidate]) -> str:
    """Give the declarations as a Markdown table."""
    rows = [[f"`{candidate.name}`", *declaration(candidate)] for candidate in candidates]
    return table(["`attention=`", *HEADINGS], rows)


def write_markdown(path: Path, candidates: Sequence[Candidate]) -> None:
    """Put the table between the two marks in the file.

    Raises
    ------
    InputError
        If the file is not there or has not each mark once, in their order.
    """
    write_between(path, BEGIN, END, markdown(candidates))
