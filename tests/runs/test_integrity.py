"""A finished run is used only if its files are unchanged."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.common.files import read_json, write_json
from forecast.export.__main__ import export
from forecast.predict.__main__ import predict
from forecast.predict.ensemble import Ensemble
from forecast.predict.forecaster import Forecaster
from forecast.report.__main__ import main as report
from forecast.runs.integrity import ForeignRun
from forecast.runs.read import damage, read_jobs
from forecast.runs.run import CONFIG, ERRORS, MANIFEST, NAMED, RESULT, Run, damage_of_finished
from forecast.training.train import train
from tests.conftest import TinyRun
from tests.support.small import read_rows, seal, snapshot

SAVED = [name for name in NAMED if name not in ("input.csv", "series.parquet", "trace.json.gz")]
"""Files of the tiny run: its data is one series in a file, and it has no trace."""


@pytest.fixture
def copied(tiny_run: TinyRun, tmp_path: Path) -> Path:
    """Return a copy of the run to damage."""
    return Path(shutil.copytree(tiny_run.path, tmp_path / "runs" / "copy"))


def flip(file: Path, place: float = 0.5) -> None:
    """Flip the lowest bit of the byte at a fraction of the file's length."""
    raw = bytearray(file.read_bytes())
    raw[int(place * len(raw))] ^= 1
    file.write_bytes(bytes(raw))


def resume(run: TinyRun, copy: Path) -> None:
    train({**run.config, "resume": str(copy)}, overrides=[f"resume={copy}"])


READERS: dict[str, Callable[[TinyRun, Path], object]] = {
    "resume": resume,
    "load": lambda run, copy: Forecaster.load(copy),
    "ensemble": lambda run, copy: Ensemble.load([run.path, copy]),
    "predict": lambda run, copy: predict([str(copy)], run.source, copy.parent / "next.csv"),
    "export": lambda run, copy: export(str(copy), copy.parent / "model.pt2"),
}


def test_links_and_runs_of_another_version_are_no_damage(copied: Path, tmp_path: Path) -> None:
    assert damage_of_finished(copied) is None
    checkpoints = copied / "checkpoints"
    moved = Path(shutil.move(checkpoints, tmp_path / "scratch"))
    checkpoints.symlink_to(moved)
    with pytest.raises(ForeignRun, match="is a link"):
        damage_of_finished(copied)
    assert "is a link" in str(damage(copied))  # a table of the runs names it
    checkpoints.unlink()
    manifest = read_json(copied / MANIFEST)
    write_json(copied / MANIFEST, {**manifest, "format": manifest["format"] + 1})
    with pytest.raises(ForeignRun, match="of another version of the program"):
        damage_of_finished(copied)
    write_json(copied / MANIFEST, {})
    assert "is no manifest" in str(damage_of_finished(copied))


def test_the_manifest_lists_every_file_of_the_run(tiny_run: TinyRun) -> None:
    assert set(Run(tiny_run.path).check()["files"]) == set(SAVED)


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("damage", ["flip", "empty", "gone"])
def test_every_reader_refuses_a_damaged_file_by_name(name: str, damage: str, copied: Path, tiny_run: TinyRun) -> None:
    if damage == "flip":
        flip(copied / name)
    elif damage == "empty":
        (copied / name).write_bytes(b"")
    else:
        (copied / name).unlink()
    before = snapshot(copied.parent)
    for reader in READERS.values():
        with pytest.raises(InputError, match=re.escape(name)):
            reader(tiny_run, copied)
    assert snapshot(copied.parent) == before


def test_a_changed_byte_of_the_manifest_is_refused(copied: Path) -> None:
    manifest = copied / MANIFEST
    whole = manifest.read_bytes()
    for place in np.random.default_rng(0).integers(len(whole), size=300):
        for bit in (0, 5):
            raw = bytearray(whole)
            raw[place] ^= 1 << bit
            manifest.write_bytes(bytes(raw))
            with pytest.raises(InputError, match=MANIFEST):
                Run.open(copied)
    for length in (len(whole) - 1, len(whole) // 2, 0):
        manifest.write_bytes(whole[:length])
        with pytest.raises(InputError, match=MANIFEST):
            Run.open(copied)


@pytest.mark.parametrize("older", [1, 2, 3])
def test_a_manifest_of_another_format_or_without_its_digest_is_refused(copied: Path, older: int) -> None:
    content = read_json(copied / MANIFEST)
    write_json(copied / MANIFEST, {**content, "format": older})
    text = "format 4 (share is now mixing_weight), but of another version of the program: train it again, or use that"
    with pytest.raises(InputError, match=re.escape(text)):
        Run.open(copied)
    write_json(copied / MANIFEST, content)
    with pytest.raises(InputError, match="has no digest"):
        Run.open(copied)


def test_a_changed_result_is_not_reported(copied: Path, tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A report leaves the changed run out of the mean and names it."""
    other = Path(shutil.copytree(copied, copied.parent / "other"))
    result = read_json(other / RESULT)
    result["test"]["scaled"]["mse"] /= 2
    write_json(other / RESULT, result)
    assert report(["--runs", str(copied.parent), "--quiet"]) == 0
    (row,) = (row for row in read_rows(copied.parent / "report.csv") if row["row"] == "model")
    assert (row["n"], float(row["test_mse"])) == ("1", pytest.approx(tiny_run.result["test"]["scaled"]["mse"]))
    assert f"other | {RESULT}: not the file that was saved" in (copied.parent / "report.md").read_text()


def test_a_job_with_changed_errors_is_damaged_in_the_tables_of_a_sweep(copied: Path) -> None:
    table = pd.read_parquet(copied / ERRORS)
    table["mse"] /= 2
    table.to_parquet(copied / ERRORS)
    (job,) = read_jobs(copied.parent).to_dict("records")
    assert job["status"] == "damaged"
    assert job["error"].startswith(f"{ERRORS}: not the file that was saved")


def test_an_unfinished_run_with_a_changed_configuration_is_not_resumed(copied: Path, tiny_run: TinyRun) -> None:
    (copied / MANIFEST).unlink()
    text = (copied / CONFIG).read_text()
    (copied / CONFIG).write_text(text.replace('"lr": 0.01', '"lr": 0.02'))
    assert (copied / CONFIG).read_text() != text
    with pytest.raises(InputError, match=rf"{CONFIG}: not readable \(its digest does not match"):
        resume(tiny_run, copied)


def test_a_trace_and_an_input_file_are_checked(copied: Path, tiny_run: TinyRun) -> None:
    for name in ("input.csv", "trace.json.gz"):
        (copied / name).write_text("written by the run")
        seal(copied)
        assert name in Run.open(copied).check()["files"]
        (copied / name).write_text("written by another")
        with pytest.raises(InputError, match=name):
            Run.open(copied)
        (copied / name).unlink()
        seal(copied)


def test_files_added_to_a_finished_run_are_ignored(copied: Path) -> None:
    for name in ("notes.txt", "events.out.tfevents.1.more"):
        (copied / name).write_text("by the user")
    assert Run.open(copied).path == copied
