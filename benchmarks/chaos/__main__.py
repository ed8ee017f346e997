"""Disturb the program and count its failures: `python -m benchmarks.chaos --minutes 10`."""

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    """Run the campaign of the command line; return 1 if a trial failed."""
    from benchmarks.chaos import __doc__ as definitions

    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: a forked thread pool would hang
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos", description=definitions, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=None, help="time limit for new trials (default: 10; with --counts: none)")
    add("--counts", help="number of trials by kind, such as interruption=30,disk=50")
    add("--full", action="store_true", help="run the long campaign: 300 interruptions, 600 corruptions, …")
    add("--kinds", nargs="+", help="run only these kinds")
    add("--seed", type=int, default=0, help="seed of the first trial of each kind, increased by 1 each (default: 0)")
    add("--trial", help="repeat one trial, such as corruption:1234, and print the output of its commands")
    add("--record", type=Path, help="file of JSON lines for the results; skip trials that it already has")
    add("--workers", type=int, default=os.cpu_count() or 1, help="number of parallel trials (default: all cores)")
    add("--patience", type=float, default=20.0, help="time limit of a command in seconds (default: 20)")
    add("--keep", action="store_true", help="keep the folders of the trials")
    add("--quick", action="store_true", help="use fewer and smaller fixtures, for tests; this changes the trials")
    options = parser.parse_args()
    from benchmarks.chaos.campaign import FULL, KINDS, Campaign, planned, table
    from benchmarks.chaos.command import import_all

    kinds = options.kinds or list(KINDS)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--kinds {unknown[0]}: choose from {', '.join(KINDS)}")
    counts = dict(FULL)
    if options.counts:
        try:
            counts = {kind: int(number) for kind, number in (word.split("=") for word in options.counts.split(","))}
        except ValueError:
            parser.error(f"--counts {options.counts}: must be kind=number, separated by commas")
    counts = {kind: number for kind, number in counts.items() if kind in kinds}
    limited = options.minutes is not None or not (options.counts or options.full)
    began = time.monotonic()
    until = began + 60 * (options.minutes or 10) if limited else math.inf
    import_all()
    folder = Path(tempfile.mkdtemp(prefix="chaos-")).resolve()
    try:
        if options.trial:
            return _repeat(options.trial, folder, options.patience, options.quick)
        record = options.record or folder / "record.jsonl"
        campaign = Campaign(
            folder, record, workers=options.workers, patience=options.patience, quick=options.quick, keep=options.keep
        )
        rows = campaign.run(list(planned(counts, options.seed)), until)
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(table(rows))
    print(f"\n{len(rows)} trials in {(time.monotonic() - began) / 60:.1f} minutes")
    return 0 if rows and all(row.held for row in rows) else 1


def _repeat(trial: str, folder: Path, patience: float, quick: bool) -> int:
    """Run one trial and print its commands."""
    from benchmarks.chaos.campaign import make
    from benchmarks.chaos.fixtures import Fixtures

    kind, _, seed = trial.partition(":")
    verdict, fresh = make(kind, int(seed), folder / "trial", Fixtures(folder / "fixtures", quick), patience)
    for ended in verdict.commands:
        print(f"$ {' '.join(ended.command)}\n{ended.text.rstrip()}")
        print(f"exit code {ended.code} after {ended.seconds:.2f} s, growth {(ended.growth or 0) / 2**20:.0f} MiB")
    print(f"{trial}{' (new processes)' if fresh else ''}: {verdict.what}")
    print(f"{'held' if verdict.held else 'FAILED'}: {verdict.came}")
    return 0 if verdict.held else 1


if __name__ == "__main__":
    sys.exit(main())
