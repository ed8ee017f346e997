"""Plan the trials, run them in parallel, write each result as a line of a file, and make the table."""

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

from benchmarks.chaos import corruptions, disks, interruptions, not_finite
from benchmarks.chaos.command import ROOT
from benchmarks.chaos.fixtures import Fixtures
from benchmarks.chaos.trial import Kind, Place, Verdict

KINDS: dict[str, Kind] = {
    "interruption": Kind(interruptions.prepare, interruptions.trial),
    "corruption": Kind(corruptions.prepare, corruptions.trial),
    "disk": Kind(disks.prepare, disks.trial),
    "not_finite": Kind(not_finite.prepare, not_finite.trial),
}

FULL = {"interruption": 300, "corruption": 600, "disk": 80, "not_finite": 80}
"""Trials of the long campaign."""

TRIAL_SECONDS = 400
"""Seconds after which a trial is killed."""

FRESH = {"interruption": 50, "corruption": 40}
"""Every n-th trial of a kind uses new Python processes instead of forks, which could hide errors."""


@dataclass(frozen=True)
class Row:
    """One line of the record: a trial and its outcome."""

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
    """Return a short digest of the program and the campaign, to recognise results of other versions."""
    digest = sha256()
    for folder in ("forecast", "conf", "benchmarks/chaos"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def planned(counts: Mapping[str, int], first: int) -> Iterator[tuple[str, int]]:
    """Yield kinds and seeds in an order in which a stopped campaign has run about the same fraction of each kind."""
    places = [((n + 0.5) / count, kind, first + n) for kind, count in counts.items() for n in range(count)]
    yield from ((kind, seed) for _, kind, seed in sorted(places))


def is_fresh(kind: str, seed: int) -> bool:
    """Return whether the commands of a trial run in new Python processes."""
    every = FRESH.get(kind)
    return every is not None and seed % every == every // 2


def make(kind: str, seed: int, folder: Path, fixtures: Fixtures, patience: float) -> tuple[Verdict, bool]:
    """Run one trial in `folder`; return its verdict and whether its commands ran in new processes."""
    fresh = is_fresh(kind, seed)
    folder.mkdir(parents=True)
    place = Place(folder, random.Random(f"{kind}:{seed}"), fixtures, fresh=fresh, patience=patience)
    try:
        return KINDS[kind].trial(place), fresh
    except Exception:  # an error of the campaign, which is reported as a failed trial
        return Verdict(False, "the trial raised an exception", traceback.format_exc()[-1500:]), fresh


def row_of(kind: str, seed: int, verdict: Verdict, fresh: bool, seconds: float) -> Row:
    """Return the line of the record for a trial."""
    growths = [ended.growth for ended in verdict.commands if ended.growth is not None]
    return Row(
        kind,
        seed,
        verdict.held,
        verdict.what,
        verdict.came,
        _last_error(verdict),
        fresh,
        round(seconds, 2),
        round(max((ended.seconds for ended in verdict.commands), default=0.0), 2),
        round(max(growths) / 2**20, 1) if growths else None,
        program(),
    )


def _last_error(verdict: Verdict) -> str:
    """Return the last error line of the tested command."""
    lines = [line for ended in verdict.commands[:1] for line in ended.error.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


class Campaign:
    """Parallel trials, each in a separate process.

    Parameters
    ----------
    folder
        Folder for temporary files.
    record
        File with a line of JSON per trial.
    workers
        Number of parallel trials.
    patience
        Time limit of a command in seconds.
    quick
        Make fewer fixtures.
    keep
        Keep the folders of the trials.
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
        """Run the trials that the record does not have, until the monotonic time `until`; return all rows."""
        wanted = set(trials)
        rows = [row for row in read(self.record) if (row.kind, row.seed) in wanted]
        recorded = {(row.kind, row.seed) for row in rows}
        missing = [trial for trial in trials if trial not in recorded]
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
        """Make the fixtures before the forks, which share them."""
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
                lost = Verdict(False, "the trial did not finish", "time limit" if late else "no verdict")
                row = row_of(kind, seed, lost, False, time.monotonic() - began)
            if not self.keep:
                shutil.rmtree(self.folder / f"{kind}-{seed}", ignore_errors=True)
            with self.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            if not row.held:
                print(f"failed: {row.kind}:{row.seed} {row.what}: {row.came}", flush=True)
            yield row


def read(record: Path) -> list[Row]:
    """Return the rows of the record from this version of the program, without an incomplete last line."""
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
    """Return the table of trials by kind and the list of failures with their seeds, as Markdown."""
    lines = [
        "| kind | trials | held | failed | in new processes | longest command | largest growth | outcomes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        trials = [row for row in rows if row.kind == kind]
        if not trials:
            continue
        held = [row for row in trials if row.held]
        outcomes = ", ".join(f"{count} {name}" for name, count in Counter(row.came for row in held).most_common())
        growth = max((row.largest_growth_mib or 0.0 for row in trials), default=0.0)
        cells: list[Any] = [kind, len(trials), len(held), len(trials) - len(held), sum(row.fresh for row in trials)]
        cells += [f"{max(row.longest_command_s for row in trials):.1f} s", f"{growth:,.0f} MiB", outcomes]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    failures = [row for row in rows if not row.held]
    lines += ["", *(f"- `--trial {row.kind}:{row.seed}`: {row.what}: {row.came}" for row in failures)]
    return "\n".join(lines).rstrip()
