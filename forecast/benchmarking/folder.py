"""Where a benchmark's files go."""

import secrets
from datetime import datetime
from pathlib import Path

from forecast.benchmarking.options import ROOT
from forecast.errors import InputError


def open_folder(wanted: Path | None) -> Path:
    """Return the folder for the files, made if need be; what it holds stays until it is replaced.

    Raises
    ------
    InputError
        If a file stands there.
    """
    folder = wanted or ROOT / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is no folder: choose another --output") from None
    return folder
