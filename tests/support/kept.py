"""Finished runs that are kept between test runs, until something changes that they depend on.

They lie below `.pytest_cache/runs`, in a folder named by a digest. All workers of a test run share them. A test that
changes a run copies it first.
"""

import fcntl
import hashlib
import inspect
import os
import platform
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from forecast.runs.run import Run, finished_result
from tests.support.affected import import_graph

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / ".pytest_cache" / "runs"
DONE = "done"
MOST_DIGESTS = 3
"""Digests of one name that stay, the latest first."""


def sources_of(module: str, root: Path = ROOT) -> list[Path]:
    """Return the files of `conf/` and of the modules that `module` imports, directly or through others.

    All of `forecast.training.callbacks` counts: the configuration names them.
    """
    graph = import_graph("forecast")
    starts = {module, *graph.find_descendants("forecast.training.callbacks")}
    names = starts.union(*map(graph.find_upstream_modules, starts))
    modules = {file for name in names for file in _files_of(name, root)}
    return sorted(modules.union((root / "conf").rglob("*.yaml")))


def _files_of(module: str, root: Path) -> list[Path]:
    """Return the file of a module and the `__init__.py` of the packages that it lies in."""
    path = root.joinpath(*module.split("."))
    packages = [parent / "__init__.py" for parent in (path, *path.parents) if root in parent.parents]
    return [file for file in (path.with_suffix(".py"), *packages) if file.is_file()]


def digest_of(files: Iterable[Path], *texts: str) -> str:
    """Return a digest of names and contents."""
    total = hashlib.sha256("\0".join(texts).encode())
    for path in files:
        total.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


@cache
def _digest(module: str, maker: Path) -> str:
    versions = [f"{name} {version(name)}" for name in ("torch", "lightning", "numpy", "pandas")]
    support = sorted((ROOT / "tests" / "support").glob("*.py"))
    return digest_of([*sources_of(module), *support, maker], platform.python_version(), *versions)


def kept(name: str, make: Callable[[Path], object], module: str = "forecast.training.train") -> Path:
    """Return the folder that `make` filled, in this test run or an earlier one with the same digest.

    The digest covers the files that `module` imports, `conf/`, the file of `make`, `tests/support` and the versions of
    the packages. Two workers never fill one folder: the second waits.
    """
    folder = STORE / f"{name}.{_digest(module, Path(inspect.getfile(make)))}"
    STORE.mkdir(parents=True, exist_ok=True)
    with (STORE / f"lock.{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / DONE).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / DONE).touch()
            _remove_old(name)
        os.utime(folder)
    return folder


def kept_run(name: str, train: Callable[[Path], object]) -> tuple[Run, dict[str, Any]]:
    """Return the run that `train` makes below `folder / "outputs"`, and its result; see `kept`."""
    (path,) = (kept(name, train) / "outputs").glob("*/*")
    result = finished_result(path)
    assert result is not None
    return Run(path), result


def _remove_old(name: str) -> None:
    folders = sorted(STORE.glob(f"{name}.[0-9a-f]*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in folders[MOST_DIGESTS:]:
        shutil.rmtree(path)
