"""The folder that a benchmark leaves its files in."""

import secrets
from datetime import datetime
from pathlib import Path

from forecast.common.errors import InputError

ROOT = Path("outputs/benchmark")


def open_folder(wanted: Path | None) -> Path:
    """Give the folder for the files, made if need be; what it holds stays until it is replaced.

    Raises
    ------
    InputError
        If something else stands there.
    """
    folder = wanted or ROOT / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is no folder: choose another --output") from None
    return folder
