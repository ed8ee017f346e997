"""Text for a person: numbers in few digits, and names without control characters."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NONE = "-"


def three_digits(value: float | None) -> str:
    """Format with three digits, or all before the point if there are more."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"


def spread(value: float) -> str:
    """Format with two digits, or all before the point if there are more."""
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}"


def mebibytes(value: float | None) -> str:
    """Format bytes as MiB."""
    return NONE if value is None else three_digits(value / 2**20)


def decimals(value: float | None) -> str:
    """Format with two decimals."""
    return NONE if value is None else f"{value:,.2f}"


def per_cent(value: float | None) -> str:
    """Format a share in per cent, with one decimal."""
    return NONE if value is None else f"{100 * value:.1f}"


def heads_of(count: int, width: int) -> str:
    """Return the number of heads and their width in words."""
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
    """Return the range of the numbers, or one number if both ends look alike."""
    least, most = shown_as(min(numbers)), shown_as(max(numbers))
    return least if least == most else f"{least} to {most}"


_LINES = "\t\n\r"
_TURNS = "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def steers(letter: str) -> bool:
    """Return whether a letter is a control character, a line separator or a change of direction."""
    return unicodedata.category(letter) == "Cc" or letter in _TURNS


def is_plain(text: str) -> bool:
    """Return whether a name has no letter that steers."""
    return text.isprintable() or not any(map(steers, text))


def shown(text: str) -> str:
    """Return the text with each letter that steers escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(letter.encode("unicode_escape").decode() if steers(letter) else letter for letter in text)


def holds_steering(content: Any) -> bool:
    """Return whether a text among plain values steers; lines and tabs are allowed."""
    if isinstance(content, str):
        return not content.isprintable() and any(steers(letter) and letter not in _LINES for letter in content)
    if isinstance(content, Mapping):
        return any(holds_steering(part) for pair in content.items() for part in pair)
    return isinstance(content, (list, tuple)) and any(map(holds_steering, content))
