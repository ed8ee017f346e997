"""Data files: located on this machine, or downloaded once and checked."""

import glob
import hashlib
import os
import platform
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO

from forecast.common.errors import InputError
from forecast.tables.formats.unpacking import content_sha256, find_file

_TIMEOUT_S = 30
_PIECE = 1 << 16

SCHEME = "https://"
"""Required start of an address, also after a redirect."""

LARGEST = 1 << 30
"""Largest download in bytes."""


def locate(
    file_name: str, *, url: str | None, sha256: str | None, about: str | None = None, data_dir: Path | None = None
) -> Path:
    """Find the file in $FORECAST_DATA_DIR, else in `data_dir` (default: data/), else download it to `data_dir`.

    A table may be compressed, with .gz added to its name; the sha256 is that of the unpacked content. `about` describes
    the file in messages. A failed download leaves no partial file; the next download removes those of killed ones.
    """
    *named, folder = data_folders(data_dir)
    for place in (*named, folder):
        if (path := find_file(place, file_name)) is not None:
            _check_file(path, sha256)
            return path
    target = folder / file_name
    kind = "" if about is None else f" ({about})"
    if url is None:
        raise InputError(
            f"{file_name}{kind} is not in {folder} and has no download address: put it there, or set "
            "FORECAST_DATA_DIR to its folder"
        )
    try:
        _fetch(url, target, sha256)
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise InputError(
            f"{file_name}{kind} could not be downloaded ({_reason(error)}): fetch {url} and put it at {target}"
        ) from error
    return target


def data_folders(data_dir: Path | None = None) -> list[Path]:
    """Return the folders of data files: $FORECAST_DATA_DIR if it is set, then `data_dir` (default: data/)."""
    named = os.environ.get("FORECAST_DATA_DIR")
    if named and not Path(named).is_dir():
        raise InputError(f"FORECAST_DATA_DIR is {named!r}, which is not a folder: correct it or unset it")
    return [*([Path(named)] if named else []), Path("data") if data_dir is None else Path(data_dir)]


def _check_file(path: Path, sha256: str | None) -> None:
    if sha256 is None:
        return
    digest = content_sha256(path)
    if digest != sha256.lower():
        raise InputError(f"{path} is not the expected file (sha256 {digest[:12]}…, expected {sha256[:12]}…): remove it")


def _fetch(url: str, target: Path, sha256: str | None) -> None:
    _check_address(url)
    if sha256 is None:
        raise ValueError("no sha256 is set to check the file")
    temporary = target.with_name(f".{target.name}.{platform.node()}.{os.getpid()}.part")
    with urllib.request.build_opener(_Redirects).open(url, timeout=_TIMEOUT_S) as response:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        try:
            with temporary.open("wb") as file:
                digest = _copy(response, file, target.name)
                file.flush()
                os.fsync(file.fileno())
            if digest != sha256.lower():
                raise ValueError(f"sha256 is {digest[:12]}…, expected {sha256[:12]}…")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def _check_address(url: str) -> None:
    if not url.lower().startswith(SCHEME):
        raise ValueError(f"the address does not begin with {SCHEME}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A handler that follows redirects to https addresses only."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        try:
            _check_address(newurl)
        except ValueError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _remove_abandoned(target: Path) -> None:
    """Remove partial files of downloads killed on this machine; other downloads may still be running."""
    prefix = f".{target.name}.{platform.node()}."
    for path in target.parent.glob(f"{glob.escape(prefix)}*.part"):
        process = path.name.removeprefix(prefix).removesuffix(".part")
        if process.isdecimal() and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _copy(response: Any, file: BinaryIO, name: str) -> str:
    """Write the body to the file and return its sha256."""
    from rich.console import Console  # imported here: most tables are not downloaded
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    length = response.headers.get("Content-Length")
    total = int(length) if length is not None else None
    if total is not None and total > LARGEST:
        raise ValueError(f"it has {total:,} bytes, the limit is {LARGEST:,}")
    digest, received = hashlib.sha256(), 0
    bar = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*bar, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total)
        while piece := response.read(_PIECE):
            file.write(piece)
            digest.update(piece)
            received += len(piece)
            if received > LARGEST:
                raise ValueError(f"it has more than {LARGEST:,} bytes, the limit")
            progress.update(task, completed=received)
    if total is not None and received != total:
        raise ValueError(f"{received} of {total} bytes arrived")
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    text = f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else str(reason) or type(error).__name__
    return " ".join(text.split())[:100]
