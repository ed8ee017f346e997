"""Tables in Markdown, and a text that a command keeps between two marks of a file."""

from collections.abc import Sequence
from pathlib import Path

from forecast.common.errors import InputError
from forecast.common.files import replacing
from forecast.common.printable import shown


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give a table, a cell of each row for each heading."""
    lines = ["| " + " | ".join(row) + " |" for row in (headings, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def inert(text: str) -> str:
    """Return a text of one line such that no name in it becomes a tag, a link or a picture of a page."""
    return shown(text).replace("<", "&lt;").replace("](", "]\\(")


def between(text: str, begin: str, end: str) -> str:
    """Give what stands between two marks, without the empty lines around it."""
    return text.partition(begin)[2].partition(end)[0].strip()


def write_between(path: Path, begin: str, end: str, content: str) -> None:
    """Put `content` between the two marks in the file.

    Raises
    ------
    InputError
        If the file is not there or has not each mark once, in their order.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file: give one with the lines {begin} and {end}")
    text = path.read_text(encoding="utf-8")
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(begin) > text.index(end):
        raise InputError(f"{path}: needs the lines {begin} and {end}, once each: the table goes between")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    with replacing(path) as file:
        file.write(f"{before}{begin}\n{content}\n{after}".encode())
