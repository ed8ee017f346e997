"""The folder of an ensemble: run folders of several seeds, and a file that names them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forecast.common.errors import InputError
from forecast.common.files import read_with_digest, write_sealed

ENSEMBLE = "ensemble.json"
"""File of an ensemble: the names of its members' folders, the scores of their mean forecast, and what they cost."""

MEMBERS = "members"

MOST = 1000
"""Largest number of members that a file may name."""


def write_ensemble(folder: Path, members: Sequence[str], content: dict[str, Any]) -> None:
    """Write the file of an ensemble whose members are folders in `folder`."""
    write_sealed(folder / ENSEMBLE, {MEMBERS: list(members), **content})


def with_members(paths: Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return `paths` with each folder of an ensemble replaced by the folders of its members."""
    return [member for path in paths for member in (_members(Path(path)) or [path])]


def _members(folder: Path) -> list[str | os.PathLike[str]]:
    """Return the run folders of an ensemble; none if `folder` is not one."""
    file = folder / ENSEMBLE
    if not file.is_file():
        return []
    content, is_sealed = read_with_digest(file)
    names = content.get(MEMBERS) if isinstance(content, dict) else None
    if not (
        is_sealed
        and isinstance(names, list)
        and 0 < len(names) <= MOST
        and all(_is_within(folder, name) for name in names)
    ):
        raise InputError(f"{file}: damaged: run the command of the ensemble again")
    return [folder / name for name in names]


def _is_within(folder: Path, name: Any) -> bool:
    """Return whether a name can only be that of an entry of the folder that is no link."""
    plain = isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name
    return plain and not (folder / name).is_symlink()
