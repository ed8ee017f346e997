"""Show that a machine's load does not change verdicts: `python -m benchmarks.load --pairs 10 --output load.csv`.

Each pair is two sweeps of the same mechanisms, one on a quiet machine and one while another process uses a core. The
order of the two alternates. The CSV has the reports' verdicts on training and inference from both. The last sweep is at
a long look-back, where the report must call `probsparse` faster than `full`.

Run it on an idle machine. Run an interrupted command again to continue.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from forecast.common.files import replacing
from forecast.common.spreadsheet import csv_bytes, read_rows

ROOT = Path(__file__).resolve().parents[1]

QUIET, BUSY = "quiet", "busy"
TIMES = ("train", "inference")
FASTER, SLOWER = "faster", "slower"

FACTS = ("against_full", "against_full_times", "against_full_low", "against_full_high", "against_full_basis", "cost")
"""Columns of a report's CSV for each time; `cost` is the time of the job in ms per window."""

COLUMNS = (
    *("pair", "mechanism", "look_back", "opposite"),
    *(f"{load}_{name}_{fact}" for name in TIMES for load in (QUIET, BUSY) for fact in (*FACTS, "disturbed", "rounds")),
    *(f"{load}_seconds" for load in (QUIET, BUSY)),
    "other_cpu_seconds",
)

LONG = "long"
"""Value of `pair` for the quiet sweep at the long look-back."""

SPIN = "import os\nstarter = os.getppid()\nwhile os.getppid() == starter:\n    sum(range(10**6))"
"""Program that uses a core until its parent process ends."""

Row = dict[str, str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pairs that are missing in the file, print a summary, and return 1 if two reports contradict."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends child processes too
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, options.pairs + 1):
        if not any(row["pair"] == str(number) for row in _read(options.output)):
            _append(options.output, _pair(number, options))
    if options.long and not any(row["pair"] == LONG for row in _read(options.output)):
        _append(options.output, _long(options))
    return _print_summary(_read(options.output), long=options.long)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--pairs", type=int, default=10, help="number of pairs of sweeps (default: %(default)s)")
    add("--output", type=Path, required=True, help="CSV file with a row per pair, mechanism and look-back")
    add("--work", type=Path, default=Path("outputs/load"), help="folder of the sweeps (default: %(default)s)")
    add("--data", default="synthetic", help="value of data= (default: %(default)s)")
    add("--mechanisms", default="full,probsparse,linear", help="value of attention= (default: %(default)s)")
    add("--look-backs", default="96,720", help="value of context_length= (default: %(default)s)")
    add("--steps", type=int, default=30, help="training steps of each job (default: %(default)s)")
    add("--seconds", type=float, default=2.0, help="value of sweep.repeat_timing in seconds (default: %(default)s)")
    add("--long-look-back", type=int, default=2880, help="look-back of the last sweep (default: %(default)s)")
    add("--long", action=argparse.BooleanOptionalAction, default=True, help="run the sweep at the long look-back")
    add("--keep", action="store_true", help="keep the folders of the sweeps")
    return parser


def _pair(number: int, options: argparse.Namespace) -> list[Row]:
    """Run both sweeps of a pair and return its rows."""
    reports: dict[str, dict[tuple[str, str], Row]] = {}
    facts: Row = {}
    for load in (QUIET, BUSY) if number % 2 else (BUSY, QUIET):
        name = f"pair-{number:02d}-{load}"
        shutil.rmtree(options.work / "sweeps" / name, ignore_errors=True)  # an interrupted pair begins again
        with _core_in_use(load == BUSY) as used:
            began = time.monotonic()
            reports[load] = _sweep(name, options.mechanisms, options.look_backs, options)
            facts[f"{load}_seconds"] = f"{time.monotonic() - began:.1f}"
        if load == BUSY:
            facts["other_cpu_seconds"] = f"{used[0]:.1f}"
        print(f"{name}: {facts[f'{load}_seconds']} s", flush=True)
    rows = [_row(str(number), key, reports, facts) for key in reports[QUIET] if key[0] != "full"]
    if not options.keep:
        for load in reports:
            shutil.rmtree(options.work / "sweeps" / f"pair-{number:02d}-{load}")
    return rows


def _long(options: argparse.Namespace) -> list[Row]:
    """Run the sweep at the long look-back and return its row."""
    shutil.rmtree(options.work / "sweeps" / LONG, ignore_errors=True)  # its times are those of an earlier command
    began = time.monotonic()
    reports = {QUIET: _sweep(LONG, "full,probsparse", str(options.long_look_back), options)}
    facts = {f"{QUIET}_seconds": f"{time.monotonic() - began:.1f}"}
    print(f"{LONG}: {facts[f'{QUIET}_seconds']} s", flush=True)
    return [_row(LONG, key, reports, facts) for key in reports[QUIET] if key[0] == "probsparse"]


def _row(pair: str, key: tuple[str, str], reports: dict[str, dict[tuple[str, str], Row]], facts: Row) -> Row:
    row: Row = {"pair": pair, "mechanism": key[0], "look_back": key[1], **facts}
    for load, report in reports.items():
        for name in TIMES:
            for fact in (*FACTS, "disturbed", "rounds"):
                row[f"{load}_{name}_{fact}"] = report[key][f"{name}_{fact}"]
    opposite = [name for name in TIMES if _verdicts(row, name) == {FASTER, SLOWER}]
    return {**row, "opposite": " ".join(opposite)}


def _verdicts(row: Row, name: str) -> set[str]:
    return {row.get(f"{load}_{name}_against_full", "") for load in (QUIET, BUSY)}


def _sweep(name: str, mechanisms: str, look_backs: str, options: argparse.Namespace) -> dict[tuple[str, str], Row]:
    """Run a sweep and return the rows of its report's CSV by mechanism and look-back."""
    words = [
        *("experiment=tradeoff", f"data={options.data}", f"attention={mechanisms}", f"context_length={look_backs}"),
        *(f"training.max_steps={options.steps}", "training.evaluation_stride=95", "sweep.isolate=false"),
        *(f"sweep.repeat_timing={options.seconds:g}", f"sweep.name={name}", f"output_dir={options.work.resolve()}"),
    ]
    command = [sys.executable, str(ROOT / "train.py"), "-m", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{name}: ended with exit code {ended.returncode}: {ended.stderr.strip() or ended.stdout[-2000:]}")
    return {
        (row["mechanism"], row["look_back"]): row
        for row in _read(options.work / "sweeps" / name / "report.csv")
        if row["row"] == "model"
    }


@contextmanager
def _core_in_use(wanted: bool) -> Iterator[list[float]]:
    """Keep a core busy within the `with` block if `wanted`; the list then has the processor time used, in seconds."""
    used = [0.0]
    if not wanted:
        yield used
        return
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield used
        if process.poll() is not None:
            sys.exit("the process that uses a core ended early")
    finally:
        process.kill()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # wait4 has already reaped it
        used[0] = usage.ru_utime + usage.ru_stime


def _read(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    names, rows = read_rows(path)
    return [dict(zip(names, cells, strict=True)) for _, cells in rows]


def _append(path: Path, rows: Sequence[Row]) -> None:
    content = csv_bytes([*_read(path), *rows], COLUMNS)
    with replacing(path) as file:
        file.write(content)


def _print_summary(rows: Sequence[Row], *, long: bool) -> int:
    """Print the verdicts of the reports on each mechanism, and return the exit code."""
    pairs = [row for row in rows if row["pair"] != LONG]
    widths = "{:<12}{:>10}  {:<10}{:<44}{:<44}{:>8}"
    print(widths.format("mechanism", "look-back", "time", "verdicts when quiet", "verdicts when busy", "opposite"))
    for mechanism, look_back in dict.fromkeys((row["mechanism"], row["look_back"]) for row in pairs):
        setting = [row for row in pairs if (row["mechanism"], row["look_back"]) == (mechanism, look_back)]
        for name in TIMES:
            counts = [_counts(row[f"{load}_{name}_against_full"] for row in setting) for load in (QUIET, BUSY)]
            opposite = sum(name in row["opposite"].split() for row in setting)
            print(widths.format(mechanism, look_back, name, *counts, opposite))
    opposite = sum(len(row["opposite"].split()) for row in pairs)
    decided = sum(row[f"{QUIET}_{name}_against_full"] in (FASTER, SLOWER) for row in pairs for name in TIMES)
    count = len({row["pair"] for row in pairs})
    print(f"{count} pairs: {opposite} opposite verdicts; the quiet reports decide {decided} of {2 * len(pairs)}")
    failed = opposite > 0
    if pairs and not decided:
        print("no quiet report has a verdict: the machine was not idle", file=sys.stderr)
        failed = True
    for row in (row for row in rows if long and row["pair"] == LONG):
        verdict = row[f"{QUIET}_train_against_full"]
        times = row[f"{QUIET}_train_against_full_times"]
        print(f"{row['mechanism']} at look-back {row['look_back']}: training {verdict} than full, time ratio {times}")
        failed |= verdict != FASTER
    return int(failed)


def _counts(verdicts: Iterator[str]) -> str:
    return ", ".join(f"{number} {verdict}" for verdict, number in Counter(verdicts).most_common())


if __name__ == "__main__":
    sys.exit(main())
