"""What the mechanisms declare, as rows of a table, and that table in a Markdown file."""

from collections.abc import Sequence
from pathlib import Path

from forecast.checking.candidate import Candidate
from forecast.errors import InputError
from forecast.files import replacing

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
    rows = [["`attention=`", *HEADINGS], ["---"] * (len(HEADINGS) + 1)]
    rows += [[f"`{candidate.name}`", *declaration(candidate)] for candidate in candidates]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows).replace("| --- ", "|---").replace("|--- |", "|---|")


def write_markdown(path: Path, candidates: Sequence[Candidate]) -> None:
    """Put the table between the two marks in the file.

    Raises
    ------
    InputError
        If the file is not there or has not each mark once, in their order.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file: give one with the lines {BEGIN} and {END}")
    text = path.read_text(encoding="utf-8")
    if (text.count(BEGIN), text.count(END)) != (1, 1) or text.index(BEGIN) > text.index(END):
        raise InputError(f"{path}: needs the lines {BEGIN} and {END}, once each: the table goes between")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    with replacing(path) as file:
        file.write(f"{before}{BEGIN}\n{markdown(candidates)}\n{after}".encode())
