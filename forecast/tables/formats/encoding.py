"""Encoding of a text file: what it is, and its content as UTF-8."""

import re
from pathlib import Path

from forecast.common.errors import InputError

_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_WESTERN = "cp1252"
_UNUSED = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
"""Bytes that text in cp1252 does not have."""
_FOREIGN_RUN = re.compile(rb"[\x80-\xff]{3,}")
_SAMPLE = 2**16
_CURE = "save the file as UTF-8, or set data.encoding, such as cp1251 or shift_jis"


def as_utf8(content: bytes, encoding: str | None, path: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return the content as UTF-8 without a byte order mark, and a note if it was read in another encoding.

    Raise InputError for a file that is not text in the given encoding, or in none that is recognized.
    """
    if not content.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise InputError(f"{path} is empty: choose another file")
    if encoding is not None:
        return _decoded(content, encoding, path), ()
    if (found := _utf16(content)) is not None:
        return _decoded(content, found, path), ("read as UTF-16 text",)
    zero = content.find(b"\0")
    if zero >= 0:
        row = content.count(b"\n", 0, zero) + 1
        raise InputError(f"{path}, row {row}: a zero byte: the file is binary or damaged: save it as CSV text")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        if not _is_western(content):
            raise InputError(f"{path}, row {row}: not UTF-8 text (or binary): {_CURE}") from error
        return _decoded(content, _WESTERN, path), (f"read as {_WESTERN} text, from row {row} on (data.encoding)",)
    return content.removeprefix(b"\xef\xbb\xbf"), ()


def _utf16(content: bytes) -> str | None:
    """Return the form of UTF-16 of a text, by its mark or by the zeros beside Latin letters; None if it has none."""
    if (form := _UTF16.get(content[:2])) is not None:
        return form
    start = content[: min(len(content), _SAMPLE) // 2 * 2]
    for form, zeros, letters in (("utf-16-le", start[1::2], start[::2]), ("utf-16-be", start[::2], start[1::2])):
        if len(zeros) > 8 and zeros.count(0) > 0.8 * len(zeros) and not letters.count(0):
            return form
    return None


def _is_western(content: bytes) -> bool:
    """Return whether the bytes beyond ASCII are few single letters, as in Western European text.

    A damaged file in UTF-8 has whole letters of UTF-8 too, and text of another language has runs of such bytes.
    """
    high = sum(byte >= 0x80 for byte in content[:_SAMPLE])
    whole = len(re.findall(rb"[\xc2-\xf4][\x80-\xbf]", content))
    return (
        not _UNUSED.search(content)
        and not _FOREIGN_RUN.search(content)
        and whole == 0
        and high <= 0.1 * min(len(content), _SAMPLE)
    )


def _decoded(content: bytes, encoding: str, path: Path) -> bytes:
    try:
        text = content.decode(encoding)
    except (UnicodeError, LookupError, TypeError) as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        row = content.count(b"\n", 0, start) + 1
        raise InputError(f"{path}, row {row}: is not text in the encoding {encoding}: {_CURE}") from error
    if not isinstance(text, str) or "\0" in text:
        raise InputError(f"{path}: in the encoding {encoding} it holds zero bytes: it is binary or damaged: {_CURE}")
    return text.removeprefix("\ufeff").encode()
