"""Text from a file that is shown or written: without letters that steer a terminal or turn the reading round."""

import unicodedata
from collections.abc import Mapping
from typing import Any

_LINES = "\t\n\r"
_TURNS = "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def steers(letter: str) -> bool:
    """Say whether a letter is a control character, a separator of lines or a change of direction."""
    return unicodedata.category(letter) == "Cc" or letter in _TURNS


def is_plain(text: str) -> bool:
    """Say whether no letter of a name steers."""
    return text.isprintable() or not any(map(steers, text))


def shown(text: str) -> str:
    """Return the text with each letter that steers written out as Python does it."""
    if text.isprintable():
        return text
    return "".join(letter.encode("unicode_escape").decode() if steers(letter) else letter for letter in text)


def holds_steering(content: Any) -> bool:
    """Say whether a text among plain values steers; lines and tabs may be in them."""
    if isinstance(content, str):
        return not content.isprintable() and any(steers(letter) and letter not in _LINES for letter in content)
    if isinstance(content, Mapping):
        return any(holds_steering(part) for pair in content.items() for part in pair)
    return isinstance(content, (list, tuple)) and any(map(holds_steering, content))
