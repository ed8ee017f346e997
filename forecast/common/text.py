"""Numbers with few digits, and names without control characters."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NONE = "-"


def three_digits(value: float | None) -> str:
    """Format with three significant digits, or as a whole number if it has more."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def spread(value: float) -> str:
    """Format with two significant digits, or as a whole number if it has more."""
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}"


def mebibytes(value: float | None) -> str:
    """Format bytes as MiB."""
    return NONE if value is None else three_digits(value / 2**20)


def decimals(value: float | None) -> str:
    """Format with two decimals."""
    return NONE if value is None else f"{value:,.2f}"


def per_cent(value: float | None) -> str:
    """Format a share in percent with one decimal."""
    return NONE if value is None else f"{100 * value:.1f}"


def counted(number: int, what: str) -> str:
    """Return a number of things."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def heads_of(count: int, width: int) -> str:
    """Return the number of heads and their width as text."""
    return f"{count} {'head' if count == 1 else 'heads'} of {width}"


def duration(seconds: float | None) -> str:
    """Format seconds in a suitable unit."""
    if seconds is None:
        return NONE
    for unit, size in (("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{three_digits(seconds / size)} {unit}"
    return f"{three_digits(1e3 * seconds)} ms"


def from_to(numbers: Sequence[float], shown_as: Callable[[float], str]) -> str:
    """Return the range of the numbers, or one number if both ends have the same text."""
    least, most = shown_as(min(numbers)), shown_as(max(numbers))
    return least if least == most else f"{least} to {most}"


LINES = "\t\n\r"
"""Control characters of a text of several lines."""

_TURNS = "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def steers(letter: str) -> bool:
    """Return whether a character controls a terminal, separates lines or changes the text direction."""
    return unicodedata.category(letter) == "Cc" or letter in _TURNS


def is_plain(text: str) -> bool:
    """Return whether a name has no control character (`steers`)."""
    return text.isprintable() or not any(map(steers, text))


def shown(text: str, kept: str = "") -> str:
    """Return the text with control characters (`steers`), except those in `kept`, escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode() if steers(letter) and letter not in kept else letter for letter in text
    )


def shortened(text: str, most: int) -> str:
    """Return the text, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    end = most // 5
    return f"{text[: most - end]} … ({len(text):,} characters) … {text[-end:]}"


def holds_steering(content: Any) -> bool:
    """Return whether plain values hold text with control characters other than tabs and line ends."""
    if isinstance(content, str):
        return not content.isprintable() and any(steers(letter) and letter not in LINES for letter in content)
    if isinstance(content, Mapping):
        return any(holds_steering(part) for pair in content.items() for part in pair)
    return isinstance(content, (list, tuple)) and any(map(holds_steering, content))
