"""A run folder: made once, read anywhere, without executing anything that is in it."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from forecast import model
from forecast.checks import check_options
from forecast.earlier import options_of
from forecast.errors import InputError
from forecast.files import replacing, sha256, write_json
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.transplanting import TRANSPLANT

FORMAT = 1
"""Version of the folder's layout; raised when an older reader could misread a newer folder."""

WEIGHTS, MANIFEST, RESULT, CONFIG = "model.safetensors", "manifest.json", "result.json", "config.json"

ERRORS = "errors.parquet"
"""Each validation and test window's own MSE and MAE."""

LEFT_BY_A_RUN = (
    *(WEIGHTS, MANIFEST, RESULT, ERRORS, "calibration.safetensors", "forecast.csv", "forecast.png"),
    *("input.csv", TRANSPLANT, "trace.json.gz", "events.out.tfevents.*", "checkpoints/step-*.ckpt"),
)
"""The files of a run folder, as patterns."""

DAMAGE = (
    *(OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError, SafetensorError),
)
"""What rebuilding a model raises when its manifest or weights are not what was saved."""


@dataclass(frozen=True)
class Architecture:
    """All that rebuilds a model: the preset, its options, the mechanisms, the sizes; plain values only."""

    preset: str
    options: dict[str, Any]
    mechanisms: Mechanisms
    sizes: Sizes

    def build(self) -> Informer:
        """Make the model with fresh weights."""
        return model.build(self.preset, self.sizes, self.mechanisms, **self.options)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Architecture":
        """Give what `dataclasses.asdict` was made of."""
        check_options(Sizes, values["sizes"], "sizes")
        return cls(
            preset=values["preset"],
            options=options_of(values["preset"], values["options"]),
            mechanisms=Mechanisms(**values["mechanisms"]),
            sizes=Sizes(**values["sizes"]),
        )


@dataclass(frozen=True)
class Run:
    """One folder under `outputs/`."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str) -> "Run":
        """Make a new folder `root/name/<date>_<time>_<id>`; no two runs ever share one.

        Raises
        ------
        InputError
            If a file stands where a folder is to be made.
        """
        parent = cls.parent(root, name)
        _make(parent)
        while True:
            path = parent / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return cls(path)

    @classmethod
    def create_at(cls, path: Path) -> "Run":
        """Make the folder `path`, or take it where it is there but holds no run.

        Raises
        ------
        InputError
            If a file stands where a folder is to be made.
        """
        _make(path)
        return cls(path)

    @staticmethod
    def parent(root: Path, name: str) -> Path:
        """Give the folder of the runs on the data called `name`."""
        return root / _plain(name)

    @property
    def checkpoints(self) -> Path:
        """The folder of what the run can be resumed from."""
        return self.path / "checkpoints"

    def clear_temporary(self) -> None:
        """Remove what a killed process was writing."""
        for folder in (self.path, self.checkpoints):
            for file in folder.glob(".*.tmp"):
                file.unlink()

    def clear(self) -> None:
        """Remove everything that a run writes but its configuration, and nothing else."""
        for pattern in LEFT_BY_A_RUN:
            for file in self.path.glob(pattern):
                file.unlink()

    @classmethod
    def open(cls, path: str | os.PathLike[str], root: Path = Path("outputs")) -> "Run":
        """Give the finished run at `path`, or the newest under `root` for the word "latest".

        Raises
        ------
        InputError
            If there is none, or the folder is not a finished run of this program.
        """
        if str(path) == "latest":
            found = [manifest.parent for manifest in root.glob(f"**/{MANIFEST}")]
            if not found:
                raise InputError(
                    f"{root}: no finished run there: train one with python train.py, or name it with --run"
                )
            return cls(max(found, key=lambda folder: (folder / MANIFEST).stat().st_mtime_ns))
        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: --run takes the folder of a finished run, outputs/…")
        if not (folder / MANIFEST).is_file():
            raise InputError(f"{folder}: not a finished run (it has no {MANIFEST}): choose another with --run")
        return cls(folder)

    def save_weights(self, network: Informer) -> None:
        """Write the model's weights."""
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        with replacing(self.path / WEIGHTS) as file:
            file.write(save(weights))

    def close(self, architecture: Architecture, facts: dict[str, Any]) -> None:
        """Write the manifest, which names the files by size and hash, last of all.

        Its presence is what makes a folder a finished run.
        """
        files = {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)}
            for file in sorted(self.path.iterdir())
            if file.is_file() and not file.name.startswith("events.out")
        }
        manifest = {"format": FORMAT, "architecture": asdict(architecture), **facts, "files": files}
        write_json(self.path / MANIFEST, manifest)

    def manifest(self) -> dict[str, Any]:
        """Give the manifest.

        Raises
        ------
        InputError
            If it is not one this version reads.
        """
        path = self.path / MANIFEST
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: not readable ({error}): the run folder is damaged") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path}: not of format {FORMAT}: it was written by another version of the program")
        return content

    def load_model(self) -> Informer:
        """Give the trained model on the CPU, ready to forecast.

        Raises
        ------
        InputError
            If the weights are not those that the manifest names.
        """
        manifest, path = self.manifest(), self.path / WEIGHTS
        try:
            if sha256(path) != manifest["files"][WEIGHTS]["sha256"]:
                raise InputError(f"{path}: not the file that was saved (its hash differs): copy the run folder again")
            network = Architecture.from_dict(manifest["architecture"]).build()
            network.load_state_dict(load_file(path))
        except InputError:
            raise
        except DAMAGE as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(f"{self.path}: the model cannot be rebuilt ({reason}): the folder is damaged") from None
        return network.eval()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(place for place in (folder, *folder.parents) if place.exists() and not place.is_dir())
        raise InputError(f"output_dir: {file} is a file: choose another folder") from None


def _plain(name: str) -> str:
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name)
    return kept.strip(".") or "run"
