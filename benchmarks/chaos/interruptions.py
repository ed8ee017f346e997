"""Interrupt trainings and sweeps, finish them with the same command, and compare with the uninterrupted run."""

import os
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.chaos.command import Child, Ended, start
from benchmarks.chaos.fixtures import LONG, SWEEP, Course, Fixtures, facts, put_table, sweep_facts
from benchmarks.chaos.operations import Operations
from benchmarks.chaos.trial import Place, Verdict, traceback_of

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

SWEEPS = 0.05
"""Fraction of the trials that interrupt a sweep."""

STARTS = 8
"""Maximum starts of the command in one trial."""

IMPORTS = 5.0
"""Seconds that a new process needs for its imports."""


@dataclass
class Interrupted:
    """A command that was interrupted and started again until it finished.

    Attributes
    ----------
    moments
        Descriptions of the interruptions.
    ends
        Outcome of each start.
    finished
        Names of the finished runs after each start.
    wrong
        What went wrong, None if nothing did.
    """

    moments: list[str] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    finished: list[set[str]] = field(default_factory=list)
    wrong: str | None = None

    def add(self, ended: Ended, work: Path) -> None:
        """Add an outcome, and the runs finished by then."""
        self.ends.append(ended)
        self.finished.append({path.parent.name for path in work.glob("outputs/**/manifest.json")})

    @property
    def summary(self) -> str:
        """The interruptions in one line."""
        return "; ".join(self.moments)


def prepare(fixtures: Fixtures) -> None:
    """Make the uninterrupted runs."""
    _ = fixtures.table, fixtures.courses, fixtures.sweep


def trial(place: Place) -> Verdict:
    """Interrupt a training or a sweep at one to three moments, and finish it."""
    return _sweep(place) if place.random.random() < SWEEPS else _training(place)


def _training(place: Place) -> Verdict:
    course = place.random.choice(list(place.fixtures.courses.values()))
    work = _work(place)
    done = _interrupted(place, work, ["train", *course.words, "resume=auto"], course)
    wrong = done.wrong or _difference(work, course)
    resumed = any("resuming after step" in ended.out for ended in done.ends)
    came = "equal, resumed" if resumed else "equal, from the start"
    return Verdict(wrong is None, f"{course.name}: {done.summary}", wrong or came, done.ends)


def _sweep(place: Place) -> Verdict:
    course = place.fixtures.sweep
    work = _work(place)
    done = _interrupted(place, work, ["train", "-m", *course.words], course)
    wrong = done.wrong or made_twice(done)
    if wrong is None:
        actual = sweep_facts(work / SWEEP)
        differing = [name for name in course.facts if actual.get(name) != course.facts[name]]
        wrong = f"lost: {', '.join(differing)} differ from the uninterrupted sweep" if differing else None
    return Verdict(wrong is None, f"sweep: {done.summary}", wrong or "equal sweep", done.ends)


def made_twice(done: Interrupted) -> str | None:
    """Return which job was trained again after an earlier command had finished it, None if there is none."""
    finished: set[str] = set()
    for finished_now, ended in zip(done.finished, done.ends, strict=True):
        started = set(re.findall(r"(\S+) (?:starts|resumes)", ended.text))
        if again := sorted(started & finished):
            return f"{again[0]} was finished, but was trained again"
        finished |= finished_now
    return None


def _work(place: Place) -> Path:
    work = place.folder / "work"
    work.mkdir()
    put_table(place.fixtures.table, work)
    return work


def _interrupted(place: Place, work: Path, command: list[str], course: Course) -> Interrupted:
    """Start the command, interrupt it one to three times, and finish it."""
    done, seconds = Interrupted(), course.seconds + (IMPORTS if place.fresh else 0)
    wanted = place.random.choice((1, 1, 1, 2, 2, 3))
    for _ in range(STARTS):
        if len(done.moments) == wanted:
            break
        number = place.random.choice(SIGNALS)
        ended, moment = _stopped(place, work, command, course, number, seconds)
        if ended.code == 0:  # it finished before the interruption
            seconds *= 0.8
            if done.moments:
                done.add(ended, work)
                return done
            shutil.rmtree(work / "outputs", ignore_errors=True)
            continue
        done.add(ended, work)
        done.moments.append(f"{signal.Signals(number).name} at {moment}")
        if (wrong := wrong_end(ended, number)) is not None:
            done.wrong = wrong
            return done
    if not done.moments:
        done.wrong = "the trial could not interrupt the command"
        return done
    ended = start(command, work, place.logs, seconds=LONG, fresh=place.fresh).wait(LONG)
    done.add(ended, work)
    if ended.code:
        done.wrong = f"lost: the same command ended with exit code {ended.code}: {ended.error.strip()[-300:]}"
    return done


def _stopped(
    place: Place, work: Path, command: list[str], course: Course, number: int, seconds: float
) -> tuple[Ended, str]:
    """Start the command and send it a signal at a random time or operation; return its outcome and the moment."""
    share = place.random.uniform(0.02, 0.98)
    if place.random.random() < 0.5 and not place.fresh:
        at = max(1, round(course.operations * share))
        return _stopped_at(command, work, place, at, number).wait(LONG), f"operation {at}"
    child = start(command, work, place.logs, seconds=LONG, fresh=place.fresh)
    time.sleep(seconds * share)
    child.kill(number)
    return child.wait(LONG), f"{seconds * share:.2f} s"


def _stopped_at(command: list[str], work: Path, place: Place, at: int, number: int) -> Child:
    stop = Operations(work, at, lambda *_: os.kill(os.getpid(), number))
    return start(command, work, place.logs, before=lambda: sys.addaudithook(stop), seconds=LONG)


def wrong_end(ended: Ended, number: int) -> str | None:
    """Return what is wrong with the end of an interrupted command; each signal has its exit code."""
    if "Traceback (most recent call last)" in ended.text:
        return traceback_of(ended)
    trains = "training: " in ended.out
    expected = {-number} if number == signal.SIGKILL else {128 + number} if trains else {128 + number, -number}
    if ended.code not in expected:
        return f"{signal.Signals(number).name} gave exit code {ended.code}: {ended.error.strip()[-200:]}"
    return None


def _difference(work: Path, course: Course) -> str | None:
    """Return how the finished run differs from the uninterrupted one, None if it does not."""
    manifests = list(work.glob("outputs/**/manifest.json"))
    if len(manifests) != 1:
        return f"lost: {len(manifests)} finished runs"
    actual = facts(manifests[0].parent)
    if differing := [name for name in course.facts if actual[name] != course.facts[name]]:
        return f"lost: {', '.join(differing)} differ from the uninterrupted run"
    if (runs := len(list(work.glob("outputs/**/config.json")))) != 1:
        return f"there are {runs} runs"
    if left := [path.name for path in work.rglob("*") if path.suffix in (".tmp", ".part")]:
        return f"left behind: {', '.join(left)}"
    return None
