"""Plan the trials, run them side by side, keep each result as a line of a file, and print the table."""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.chaos import artefacts, corruptions, disks, interruptions, not_finite, tables
from benchmarks.chaos.command import ROOT
from benchmarks.chaos.fixtures import Fixtures
from benchmarks.chaos.trial import Kind, Place, Verdict

KINDS: dict[str, Kind] = {
    "interruption": Kind(interruptions.prepare, interruptions.trial),
    "corruption": Kind(corruptions.prepare, corruptions.trial),
    "artefact": Kind(artefacts.prepare, artefacts.trial),
    "table": Kind(tables.prepare, tables.trial),
    "disk": Kind(disks.prepare, disks.trial),
    "not_finite": Kind(not_finite.prepare, not_finite.trial),
}

FULL = {"interruption": 300, "corruption": 600, "artefact": 600, "table": 500, "disk": 80, "not_finite": 80}
"""Trials of the long campaign."""

TRIAL_SECONDS = 400
"""After which a trial is given up."""

FRESH = {"interruption": 50, "corruption": 40, "artefact": 40, "table": 50}
"""Every n-th trial of a kind uses new Python processes in place of forks, so that a fork hides nothing."""


@dataclass(frozen=True)
class Row:
    """One line of the record: a trial and what it came to."""

    kind: str
    seed: int
    held: bool
    what: str
    came: str
    said: str
    fresh: bool
    seconds: float
    longest_command_s: float
    largest_growth_mib: float | None
    program: str


def program() -> str:
    """Return a short digest of the program and the campaign: results of another version are not this one's."""
    digest = sha256()
    for folder in ("forecast", "conf", "benchmarks/chaos"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def planned(counts: Mapping[str, int], first: int) -> Iterator[tuple[str, int]]:
    """Yield kinds and seeds so that a campaign that is stopped has made about the same share of each kind."""
    places = [((n + 0.5) / count, kind, first + n) for kind, count in counts.items() for n in range(count)]
    yield from ((kind, seed) for _, kind, seed in sorted(places))


def is_fresh(kind: str, seed: int) -> bool:
    """Return whether the commands of a trial are new Python processes."""
    every = FRESH.get(kind)
    return every is not None and seed % every == every // 2


def make(kind: str, seed: int, folder: Path, fixtures: Fixtures, patience: float) -> tuple[Verdict, bool]:
    """Make one trial in `folder`, and say whether its commands were new processes."""
    fresh = is_fresh(kind, seed)
    folder.mkdir(parents=True)
    place = Place(folder, random.Random(f"{kind}:{seed}"), fixtures, fresh=fresh, patience=patience)
    try:
        return KINDS[kind].trial(place), fresh
    except Exception:  # a trial that breaks is a fault of the campaign, and is reported as one
        return Verdict(False, "the trial itself broke", traceback.format_exc()[-1500:]), fresh


def row_of(kind: str, seed: int, verdict: Verdict, fresh: bool, seconds: float) -> Row:
    """Return the line of the record for a trial."""
    growths = [ended.growth for ended in verdict.commands if ended.growth is not None]
    return Row(
        kind,
        seed,
        verdict.held,
        verdict.what,
        verdict.came,
        _said(verdict),
        fresh,
        round(seconds, 2),
        round(max((ended.seconds for ended in verdict.commands), default=0.0), 2),
        round(max(growths) / 2**20, 1) if growths else None,
        program(),
    )


def _said(verdict: Verdict) -> str:
    """Return the last line of errors of the command that was put to the test."""
    lines = [line for ended in verdict.commands[:1] for line in ended.error.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


class Campaign:
    """Trials side by side, each in a process of its own.

    Parameters
    ----------
    folder
        For temporary files.
    record
        The file that gets a line of JSON for each trial.
    workers
        Trials at a time.
    patience
        Seconds that a command may take.
    quick
        Make fewer fixtures.
    keep
        Leave the folders of the trials.
    """

    def __init__(
        self,
        folder: Path,
        record: Path,
        *,
        workers: int = 2,
        patience: float = 20.0,
        quick: bool = False,
        keep: bool = False,
    ) -> None:
        self.folder = folder
        self.record = record
        self.workers = workers
        self.patience = patience
        self.keep = keep
        self.fixtures = Fixtures(folder / "fixtures", quick)

    def run(self, trials: Sequence[tuple[str, int]], until: float) -> list[Row]:
        """Make the trials that the record does not hold yet, until the clock shows `until`; return all rows."""
        wanted = set(trials)
        rows = [row for row in read(self.record) if (row.kind, row.seed) in wanted]
        there = {(row.kind, row.seed) for row in rows}
        missing = [trial for trial in trials if trial not in there]
        self._prepare({kind for kind, _ in missing})
        running: dict[int, tuple[str, int, float]] = {}
        queue = iter(missing)
        try:
            while True:
                while len(running) < self.workers and time.monotonic() < until and (trial := next(queue, None)):
                    running[self._start(*trial)] = (*trial, time.monotonic())
                if not running:
                    return rows
                rows += self._reap(running)
                time.sleep(0.005)
        finally:
            for process in running:
                os.killpg(process, signal.SIGKILL)

    def _prepare(self, kinds: set[str]) -> None:
        """Make the fixtures before the forks, which then share them."""
        for kind in sorted(kinds):
            KINDS[kind].prepare(self.fixtures)

    def _start(self, kind: str, seed: int) -> int:
        folder = self.folder / f"{kind}-{seed}"
        sys.stdout.flush()
        process = os.fork()
        if process:
            return process
        try:
            os.setpgid(0, 0)
            began = time.monotonic()
            verdict, fresh = make(kind, seed, folder, self.fixtures, self.patience)
            row = row_of(kind, seed, verdict, fresh, time.monotonic() - began)
            (self.folder / f"{kind}-{seed}.json").write_text(json.dumps(asdict(row)))
        finally:
            os._exit(0)

    def _reap(self, running: dict[int, tuple[str, int, float]]) -> Iterator[Row]:
        for process, (kind, seed, began) in list(running.items()):
            late = time.monotonic() - began > TRIAL_SECONDS
            if late:
                os.killpg(process, signal.SIGKILL)
            if not os.waitpid(process, 0 if late else os.WNOHANG)[0]:
                continue
            del running[process]
            path = self.folder / f"{kind}-{seed}.json"
            if path.is_file():
                row = Row(**json.loads(path.read_text()))
                path.unlink()
            else:
                lost = Verdict(False, "the trial itself ended", "too late" if late else "without a verdict")
                row = row_of(kind, seed, lost, False, time.monotonic() - began)
            if not self.keep:
                shutil.rmtree(self.folder / f"{kind}-{seed}", ignore_errors=True)
            with self.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            if not row.held:
                print(f"failed: {row.kind}:{row.seed} {row.what}: {row.came}", flush=True)
            yield row


def read(record: Path) -> list[Row]:
    """Return the rows of the record that this version of the program made; a torn last line is left out."""
    if not record.is_file():
        return []
    rows = []
    for line in record.read_text(encoding="utf-8").splitlines():
        try:
            row = Row(**json.loads(line))
        except ValueError:
            continue
        if row.program == program():
            rows.append(row)
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the table of what was tried, held and failed, and the failures with their seeds, as Markdown."""
    lines = [
        "| kind | tried | held | failed | in new processes | longest command | largest growth | what came of it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        mine = [row for row in rows if row.kind == kind]
        if not mine:
            continue
        held = [row for row in mine if row.held]
        came = ", ".join(f"{count} {name}" for name, count in Counter(row.came for row in held).most_common())
        growth = max((row.largest_growth_mib or 0.0 for row in mine), default=0.0)
        cells: list[Any] = [kind, len(mine), len(held), len(mine) - len(held), sum(row.fresh for row in mine)]
        cells += [f"{max(row.longest_command_s for row in mine):.1f} s", f"{growth:,.0f} MiB", came]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    failures = [row for row in rows if not row.held]
    lines += ["", *(f"- `--trial {row.kind}:{row.seed}`: {row.what}: {row.came}" for row in failures)]
    return "\n".join(lines).rstrip()
