"""Simulate disk failures: full, read-only, too small for one file, or failing at a single operation."""

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.chaos.command import Ended, run, start
from benchmarks.chaos.corruptions import reference
from benchmarks.chaos.fixtures import LONG, RUN, TABLE, Course, Fixtures, copied, facts, put_table
from benchmarks.chaos.operations import Operations
from benchmarks.chaos.trial import Place, Verdict, complaint

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def prepare(fixtures: Fixtures) -> None:
    """Make the fixtures of the trials."""
    _ = fixtures.table, fixtures.courses, fixtures.sweep
    reference(fixtures, "predict")


def trial(place: Place) -> Verdict:
    """Run a training or a forecast on a failing disk, then run it again with enough space."""
    return _training(place) if place.random.random() < 0.7 else _forecast(place)


def _training(place: Place) -> Verdict:
    rng = place.random
    course = rng.choice(list(place.fixtures.courses.values()))
    work = place.folder / "work"
    work.mkdir()
    put_table(place.fixtures.table, work)
    command = ["train", *course.words, "resume=auto"]
    what, ended = _on_a_bad_disk(place, work, work / "outputs", command, course)
    if (wrong := _wrong_end(ended)) is None:
        torn = [path.name for path in work.rglob("*") if path.suffix in (".tmp", ".part")]
        wrong = f"left behind: {', '.join(torn)}" if torn and ended.code else None
    again = run(command, work, place.logs, seconds=LONG)
    if wrong is None:
        wrong = _not_finished(again, work, course)
    return Verdict(wrong is None, f"{course.name}: {what}", wrong or _came(ended), [ended, again])


def _forecast(place: Place) -> Verdict:
    work = copied(place.fixtures.finished, place.folder)
    out = work / "out"
    out.mkdir()
    before = "the user's older forecast"
    (out / "out.csv").write_text(before)
    command = ["predict", "--run", RUN, "--input", TABLE, "--output", "out/out.csv"]
    course = Course("predict", [], {}, 6, 1.0)
    what, ended = _on_a_bad_disk(place, work, out, command, course)
    wrong = _wrong_end(ended)
    if wrong is None:
        text = (out / "out.csv").read_text()
        whole = reference(place.fixtures, "predict")
        if text not in (before, whole):
            wrong = f"torn: the forecast has {len(text)} of {len(whole)} characters"
        elif ended.code == 0 and text != whole:
            wrong = "exit code 0 without a forecast"
    return Verdict(wrong is None, f"predict: {what}", wrong or _came(ended), [ended])


def _on_a_bad_disk(place: Place, work: Path, written: Path, command: list[str], course: Course) -> tuple[str, Ended]:
    """Run the command with a disk failure in the folder `written`; return the failure and the outcome."""
    kinds: list[Callable[[Place, Path, Path, list[str], Course], tuple[str, Ended]]] = [_failing, _failing, _limited]
    if _can_mount(place.folder):
        kinds += [_small, _read_only]
    return place.random.choice(kinds)(place, work, written, command, course)


def _failing(place: Place, work: Path, written: Path, command: list[str], course: Course) -> tuple[str, Ended]:
    at = max(1, round(place.random.random() * course.operations))
    number = place.random.choice(ERRORS)
    lasting = place.random.random() < 0.5

    def fail(event: str, path: str) -> None:
        # removing a file works on a full disk
        if event in ("open", "os.mkdir", "os.rename", "os.truncate"):
            raise OSError(number, os.strerror(number), path)

    operations = Operations(written, at, fail, lasting=lasting)
    child = start(command, work, place.logs, before=lambda: sys.addaudithook(operations), seconds=LONG)
    failure = f"{errno.errorcode[number]} at operation {at}{' and after' if lasting else ''}"
    return failure, child.wait(LONG)


def _limited(place: Place, work: Path, written: Path, command: list[str], course: Course) -> tuple[str, Ended]:
    # the limit also applies to the captured output
    size = place.random.choice([8192, 12000, 16384, 20000, 30000, 40000, 65536])
    child = start(
        command, work, place.logs, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)), seconds=LONG
    )
    return f"no file above {size} bytes", child.wait(LONG)


def _small(place: Place, work: Path, written: Path, command: list[str], course: Course) -> tuple[str, Ended]:
    size = place.random.choice([4, 16, 48, 100, 160, 250, 400, 600])
    with _Mount(written, f"size={size}k") as mount:
        return f"a disk of {size} KiB", mount.run(command, work, place)


def _read_only(place: Place, work: Path, written: Path, command: list[str], course: Course) -> tuple[str, Ended]:
    with _Mount(written, "size=16m") as mount:
        subprocess.run(["mount", "-o", "remount,ro", str(written)], check=True)
        return "a read-only disk", mount.run(command, work, place)


class _Mount:
    """A file system in memory over a folder; its files stay in the folder afterwards."""

    def __init__(self, folder: Path, options: str) -> None:
        self.folder, self.options = folder, options

    def __enter__(self) -> "_Mount":
        self.folder.mkdir(exist_ok=True)
        contents = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", str(self.folder)], check=True)
        for name, raw in contents.items():
            (self.folder / name).write_bytes(raw)
        return self

    def run(self, command: list[str], work: Path, place: Place) -> Ended:
        return run(command, work, place.logs, seconds=LONG)

    def __exit__(self, *_: object) -> None:
        saved = self.folder.with_name(f"{self.folder.name}-saved")
        shutil.copytree(self.folder, saved)
        subprocess.run(["umount", str(self.folder)], check=True)
        shutil.rmtree(self.folder)
        saved.rename(self.folder)


def _can_mount(folder: Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    place = folder / "mounted"
    place.mkdir(exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], capture_output=True).returncode == 0
    if made:
        subprocess.run(["umount", str(place)], check=True)
    return made


def _wrong_end(ended: Ended) -> str | None:
    """Return what is wrong with the end of a command on a failing disk; it must succeed or end with exit code 4."""
    if (wrong := complaint(ended)) is not None:
        return wrong
    return None if ended.code in (0, 4) else f"exit code {ended.code}: {ended.error.strip()[-300:]}"


def _not_finished(again: Ended, work: Path, course: Course) -> str | None:
    """Return why the same command does not finish once there is space, None if it does."""
    if again.code:
        return f"lost: with enough space it ended with exit code {again.code}: {again.error.strip()[-300:]}"
    runs = [facts(path.parent) for path in work.glob("outputs/**/manifest.json")]
    return None if course.facts in runs else "lost: with enough space the run differs"


def _came(ended: Ended) -> str:
    return "exit code 4" if ended.code else "finished"
