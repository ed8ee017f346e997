"""Whether the files of a finished run are those that its manifest names; this finds damage, not a forger."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import sha256

CURE = "the run folder is damaged: copy it again, or train again"


class DamagedRun(InputError):
    """A file of a finished run is not the file that was saved."""


def check_links(folder: Path) -> None:
    """Refuse a run folder in which something is a link: what is read and written there may lie anywhere.

    Raises
    ------
    InputError
        Naming it.
    """
    for place in (folder, *(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())):
        if (link := next((path for path in place.iterdir() if path.is_symlink()), None)) is not None:
            raise InputError(f"{link}: is a link: a run folder holds files of its own: put a copy in its place")


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return size in bytes and SHA-256 of those files of `folder` that are there."""
    files = [folder / name for name in sorted(names) if (folder / name).is_file()]
    return {file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in files}


def check_files(folder: Path, described: Mapping[str, Any], names: Iterable[str]) -> None:
    """Compare the files of `folder` with what `describe_files` returned when they were saved.

    Parameters
    ----------
    names
        The files that are compared; no other name of `described` is looked at.

    Raises
    ------
    DamagedRun
        Naming the first file that is gone, or has another size or hash.
    """
    for name in names:
        if name in described and (why := _difference(folder / name, described[name])) is not None:
            raise DamagedRun(f"{folder / name}: {why}: {CURE}")


def _difference(file: Path, saved: Any) -> str | None:
    if not isinstance(saved, Mapping) or not {"bytes", "sha256"} <= saved.keys():
        return "the manifest does not describe it"
    if not file.is_file():
        return "is gone"
    if (size := file.stat().st_size) != saved["bytes"]:
        return f"not the file that was saved (it has {size:,} bytes, {saved['bytes']} were saved)"
    if sha256(file) != saved["sha256"]:
        return "not the file that was saved (its hash differs)"
    return None
