"""A run folder: written once, read anywhere, without executing anything in it."""

import os
import secrets
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from forecast import model
from forecast.common.bounds import Room, check_sizes, shapes_of
from forecast.common.cli import ran_out_of_memory
from forecast.common.errors import InputError
from forecast.common.files import folder_lock, read_json, read_with_digest, replacing, sha256, write_sealed
from forecast.common.settings import check_options
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.runs.ensemble import ENSEMBLE, with_members
from forecast.runs.integrity import CURE, ForeignRun, check_files, check_links, describe_files

FORMAT = 4
OTHER_FORMAT = f"not of format {FORMAT} (share is now mixing_weight), but of another version of the program"

# All files of a run folder

CONFIG = "config.json"
"""The configuration as plain values: the first file of a run."""

WEIGHTS, RESULT = "model.safetensors", "result.json"

MANIFEST = "manifest.json"
"""The model's architecture and the hash of each file: the last file of a run, which makes it finished."""

ERRORS = "errors.parquet"
"""MSE and MAE of each validation and test window."""

CALIBRATION = "calibration.safetensors"
"""Conformal scores of held-out windows by horizon step and series, for intervals."""

SERIES = "series.parquet"
"""Test scores of each series of a panel."""

FORECAST, PICTURE = "forecast.csv", "forecast.png"
"""The forecast of the last test window, as a table and drawn."""

INPUT = "input.csv"
"""Rows to forecast from, for simulated data."""

TIME_BUDGET = "time_budget.json"
"""How a training from Python spent its time (`forecast.fit(…, time_budget=…)`)."""

TRACE = "trace.json.gz"
"""Trace of a few training steps (`training.profile`), for ui.perfetto.dev."""

CHECKPOINTS = "checkpoints"

JOB, FAILED, TRACEBACK, LEFT = "job.json", "failed.json", "traceback.txt", "left.json"
"""Files of a sweep in the folder of a job: words, error, traceback, and a note if the job did not start in time."""

UNLOCKED = tuple(f".{name}." for name in (JOB, FAILED, TRACEBACK, LEFT))
"""Starts of the names of temporary files that another process may be writing."""

SLACK = 1024
"""Elements that building a model allocates in addition."""

OUTCOME = (WEIGHTS, RESULT, ERRORS, SERIES, CALIBRATION, FORECAST, PICTURE, INPUT, TRACE)
"""Files written at the end of a run."""

NAMED = (CONFIG, *OUTCOME)
"""Files that a manifest lists with size and hash; files added later are not listed."""

LEFT_BY_A_RUN = (*OUTCOME, MANIFEST, "events.out.tfevents.*", f"{CHECKPOINTS}/step-*.ckpt")
"""Patterns of all files of a run folder except its configuration."""

DATED = 19
"""Length of the date and time at the start of a folder's name."""

DAMAGE = (
    *(OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError, SafetensorError),
)
"""Errors that rebuilding a model from a damaged manifest or weights can raise."""

CHANGED = "it is damaged, or of another version: copy it again, or train it again"
"""Message on a run whose manifest is inconsistent."""


def check_not_of_a_run(*paths: Path) -> None:
    """Raise InputError if a file written to one of the paths of `--output` would replace a file of a run."""
    for path in paths:
        is_run = all((path.parent / name).is_file() for name in (CONFIG, MANIFEST))
        is_ensemble = (path.parent / ENSEMBLE).is_file()
        of_a_run = (*NAMED, MANIFEST, JOB, FAILED, TRACEBACK, LEFT)
        if (is_run and path.name in of_a_run) or (is_ensemble and path.name == ENSEMBLE):
            raise InputError(f"{path}: is a file of the run in its folder: choose another --output")


@dataclass(frozen=True)
class Architecture:
    """The plain values that rebuild a model: preset, options, mechanisms, sizes."""

    preset: str
    options: dict[str, Any]
    mechanisms: Mechanisms
    sizes: Sizes

    def build(self) -> Informer:
        """Build the model with fresh weights."""
        return model.build(self.preset, self.sizes, self.mechanisms, **self.options)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Architecture":
        """Invert `dataclasses.asdict`, and check that the sizes are possible."""
        for name, group in {**values["mechanisms"], "sizes": values["sizes"], "options": values["options"]}.items():
            check_sizes(group, name)
        check_options(Sizes, values["sizes"], "sizes")
        return cls(
            preset=values["preset"],
            options=values["options"],
            mechanisms=Mechanisms(**values["mechanisms"]),
            sizes=Sizes(**values["sizes"]),
        )


@dataclass(frozen=True)
class Run:
    """One folder under `outputs/`."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str) -> "Run":
        """Make a new, unique folder `root/name/<date>_<time>_<id>`."""
        parent = make_folder(cls.parent(root, name))
        while True:
            path = parent / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return cls(path)

    @staticmethod
    def parent(root: Path, name: str) -> Path:
        """Return the folder of the runs on the data `name`."""
        return root / _plain(name)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / CHECKPOINTS

    def clear_temporary(self) -> None:
        """Remove the unfinished files of a killed process, except those that a sweep writes without a lock."""
        for folder in (self.path, self.checkpoints):
            for file in folder.glob(".*.tmp"):
                if not file.name.startswith(UNLOCKED):
                    file.unlink()

    def clear(self) -> None:
        """Remove every file that a run writes, except its configuration."""
        for pattern in LEFT_BY_A_RUN:
            for file in self.path.glob(pattern):
                file.unlink()

    @classmethod
    def open(cls, path: str | os.PathLike[str], root: Path = Path("outputs")) -> "Run":
        """Return the finished run at `path`, or for "latest" the newest one under `root`.

        Raise InputError if it is missing, not a finished run of this program, or differs from its manifest.
        """
        folder = cls._latest(root) if str(path) == "latest" else Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: --run takes the folder of a finished run, outputs/…")
        if (members := with_members([folder])) != [folder]:
            raise InputError(f"{folder}: an ensemble of {len(members)} runs: choose one, such as --run {members[0]}")
        if not is_finished(folder):
            raise InputError(f"{folder}: not a finished run (it has no {MANIFEST}): choose another with --run")
        run = cls(folder)
        run.check()
        return run

    @classmethod
    def open_and_say(cls, path: str | os.PathLike[str]) -> "Run":
        """Return the run as `open` does, and print the folder that "latest" refers to."""
        run = cls.open(path)
        if str(path) == "latest":
            print(f"run: {shlex.quote(str(run.path))} (the newest finished run)")
        return run

    @staticmethod
    def _latest(root: Path) -> Path:
        folders = [manifest.parent for manifest in root.glob(f"**/{MANIFEST}")]
        if not folders:
            raise InputError(f"{root}: no finished run there: train one with python train.py, or name it with --run")
        return max(folders, key=_start_time)

    def save_weights(self, network: Informer) -> None:
        """Write the model's weights."""
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        with replacing(self.path / WEIGHTS) as file:
            file.write(save(weights))

    def seal(self, facts: dict[str, Any]) -> None:
        """Write the manifest, with size and hash of each file. It is the last file, and marks the run as finished."""
        files = describe_files(self.path, NAMED)
        write_sealed(self.path / MANIFEST, {**facts, "format": FORMAT, "files": files})

    def check(self) -> dict[str, Any]:
        """Check every file of the manifest, and return the manifest."""
        check_links(self.path)
        manifest = self.manifest()
        check_files(self.path, manifest["files"], NAMED)
        return manifest

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        path = self.path / MANIFEST
        content, is_sealed = read_with_digest(path)
        if not isinstance(content, dict) or "format" not in content:
            raise InputError(f"{path}: is no manifest: {CURE}")
        if content["format"] != FORMAT:
            raise ForeignRun(f"{path}: {OTHER_FORMAT}: train it again, or use that version")
        if not isinstance(content.get("files"), dict) or not is_sealed:
            raise InputError(f"{path}: has no digest, or names no files: {CURE}")
        return content

    def _check_horizon(self, sizes: Sizes) -> None:
        """Check horizon and targets against the calibration file: shapes of weights need not depend on them."""
        _, *shape = shapes_of(self.path / CALIBRATION)["scores"]
        if list(shape[:2]) != [sizes.horizon, sizes.num_targets]:
            raise ValueError(f"{CALIBRATION} has another number of steps or targets")

    def _build(self, architecture: Architecture) -> Informer:
        """Build the model; treat unknown or missing options as damage."""
        try:
            return architecture.build()
        except InputError as error:
            raise InputError(f"{self.path}: {error}: {CHANGED}") from None

    def load_model(self) -> Informer:
        """Return the trained model on the CPU; raise InputError if the weights differ from the manifest."""
        manifest, path = self.manifest(), self.path / WEIGHTS
        try:
            if sha256(path) != manifest["files"][WEIGHTS]["sha256"]:
                raise InputError(f"{path}: not the file that was saved (its hash differs): copy the run folder again")
            architecture = Architecture.from_dict(manifest["architecture"])
            self._check_horizon(architecture.sizes)
            with Room(2 * sum(map(prod, shapes_of(path).values())) + SLACK):
                network = self._build(architecture)
            network.load_state_dict(load_file(path))
        except InputError:
            raise
        except DAMAGE as error:
            if ran_out_of_memory(error):  # impossible sizes are refused before this
                raise
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(f"{self.path}: the model cannot be rebuilt ({reason}): {CHANGED}") from None
        return network.eval()


def _start_time(folder: Path) -> tuple[float, int]:
    """Return the start of a run in seconds, from the name of its folder or else from its configuration file."""
    config = folder / CONFIG
    written = config.stat().st_mtime_ns if config.is_file() else 0
    try:
        return datetime.strptime(folder.name[:DATED], "%Y-%m-%d_%H-%M-%S").timestamp(), written
    except ValueError:  # the name of a sweep's job is its words
        return written / 1e9, written


def make_folder(folder: Path) -> Path:
    """Make a folder for runs if it is missing, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(place for place in (folder, *folder.parents) if place.exists() and not place.is_dir())
        raise InputError(f"output_dir: {file} is a file: choose another folder") from None
    return folder


def _plain(name: str) -> str:
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name)
    return plain.strip(".") or "run"


def clear_never_begun(parent: Path) -> None:
    """Remove the folders below `parent` whose process was killed while it wrote the first file, the configuration."""
    for folder in parent.iterdir():
        with suppress(InputError, OSError):  # another process may remove it, or use it
            files = list(folder.glob(f".{CONFIG}.*.tmp")) if folder.is_dir() and not folder.is_symlink() else []
            if not files or len(files) != len(list(folder.iterdir())):
                continue
            with folder_lock(folder):
                for file in files:
                    file.unlink()
                folder.rmdir()


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished run."""
    return (folder / MANIFEST).is_file()


def finished_result(folder: Path) -> dict[str, Any] | None:
    """Return the content of `result.json` of a finished run, None for an unfinished run."""
    result: dict[str, Any] | None = read_json(folder / RESULT) if is_finished(folder) else None
    return result


def damage_of_finished(folder: Path) -> str | None:
    """Return the error of a finished run that differs from its manifest, None for intact and unfinished runs.

    Raises
    ------
    ForeignRun
        If the folder holds links or a run of another version, which are not damage.
    """
    if not is_finished(folder):
        return None
    try:
        Run(folder).check()
    except ForeignRun:
        raise
    except InputError as error:
        return str(error)
    return None


def copied_run(folder: Path, target: Path) -> Path:
    """Copy the folder of a finished run or of an ensemble to a new one, without checkpoints; return its path."""
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target}: is not empty: choose a new folder")
    shutil.copytree(folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CHECKPOINTS, ".*"))
    return target
