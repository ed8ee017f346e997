"""Write one report of finished runs: `python -m forecast.report --runs outputs/sweeps/<name>`."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from forecast.common.cli import finish
from forecast.common.errors import InputError
from forecast.common.text import counted


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report that the command line describes; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.report",
        description="Compare finished runs by error, time and memory, and answer in a few sentences which differences "
        "are significant. Writes report.html (one file, opens offline), report.md, report.csv and pictures.",
    )
    parser.add_argument(
        "--runs", required=True, nargs="+", type=Path, metavar="folder", help="a sweep, a run, or a folder of runs"
    )
    parser.add_argument("--output", type=Path, metavar="folder", help="where to write; default: the only --runs folder")
    parser.add_argument("--quiet", action="store_true", help="print only the path of the report")
    options = parser.parse_args(arguments)
    return finish(lambda: report(options.runs, options.output, quiet=options.quiet))


def report(roots: Sequence[Path], output: Path | None = None, *, quiet: bool = False) -> None:
    """Write the report of all finished runs in and below `roots`, and print its answer."""
    if output is None and len(roots) > 1:
        raise InputError(f"--runs: {len(roots)} folders: choose where the report goes with --output")
    folder = roots[0] if output is None else output
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: not a folder: choose another --output")
    from forecast.report.html import PAGE, write_report
    from forecast.runs.read import read_runs  # here, so that --help does not wait for pandas

    found = read_runs(roots)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: not a folder: choose another --output") from None
    names = ", ".join(root.resolve().name for root in roots)
    content = write_report(folder, f"{names}: {counted(len(found.runs), 'run')}, {datetime.now():%Y-%m-%d}", found)
    if not quiet:
        for chapter in content.chapters:
            print(*chapter.answer, sep="\n")
    print(f"report: {shlex.quote(str(folder / PAGE))}")


def report_sweep(folder: Path) -> None:
    """Write the report of a sweep into its folder and print its answer, if a job has finished."""
    from forecast.runs.read import read_jobs

    if not read_jobs(folder)["of"].notna().any():
        return
    try:
        report([folder])
    except InputError as error:  # runs of another version do not make the sweep fail
        print(f"no report: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
