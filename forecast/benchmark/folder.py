"""The folder that a benchmark leaves its files in."""

import argparse
import secrets
from datetime import datetime
from pathlib import Path

from forecast.common.errors import InputError
from forecast.common.option_types import positive

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


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare where a benchmark computes and where it writes."""
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one")
    add("--threads", type=positive, help="of the CPU; torch's own choice if not given")
    add("--output", type=Path, help=f"folder for the files; a new one under {ROOT} if not given")
    add("--quiet", action="store_true", help="no progress and no tables, only where the files are")
