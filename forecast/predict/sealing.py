"""The digest of an exported file, at its very end, where both formats let one be: this finds damage, not a forger."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from forecast.common.errors import InputError

DIGEST = "sha256"
"""What the digest is called among an .onnx file's metadata."""

BLANK = b"0" * 64
"""Stands in the place of the digest while it is taken."""

_END, _NO_COMMENT = b"PK\x05\x06", b"\0\0"
_METADATA, _KEY, _VALUE = b"\x72", b"\x0a", b"\x12"  # fields 14, 1 and 2 of ModelProto and of its entries, as lengths


def _zip(content: bytes) -> bytes:
    """Return the archive with a blank digest as its comment, which ends it."""
    assert content[-22:-18] == _END
    assert content[-2:] == _NO_COMMENT
    return content[:-2] + len(BLANK).to_bytes(2, "little") + BLANK


def _protobuf(content: bytes) -> bytes:
    """Return the message with a blank digest as one more entry of its metadata, which ends it."""
    name = DIGEST.encode()
    entry = _KEY + bytes([len(name)]) + name + _VALUE + bytes([len(BLANK)]) + BLANK
    return content + _METADATA + bytes([len(entry)]) + entry


BLANKED: dict[str, Callable[[bytes], bytes]] = {".onnx": _protobuf, ".pt2": _zip}
"""What adds a blank digest to a file's content, by the end of its name."""


def sealed(content: bytes, suffix: str) -> bytes:
    """Return the content of a file with the digest of all of it at its end."""
    blank = BLANKED[suffix](content)
    return blank[: -len(BLANK)] + _digest(blank)


def check_sealed(content: bytes, path: Path) -> None:
    """Compare the content of an exported file with the digest at its end, before any of it is run.

    Raises
    ------
    InputError
        If it is not what was written.
    """
    if len(content) < len(BLANK) or _digest(content[: -len(BLANK)] + BLANK) != content[-len(BLANK) :]:
        raise InputError(
            f"{path}: not a file that this version of forecast.export wrote, or a damaged one (its digest differs): "
            "copy it again, or export it again"
        )


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
