"""Measure all that a GPU must show, most important first, within a time: `python -m benchmarks.gpu --minutes 8`.

The same command continues where it stopped: figures of the same commit and device are not measured again.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import torch

from benchmarks.gpu.page import BEGIN, END, crossing_table
from benchmarks.gpu.parts import Bench, Part, parts
from benchmarks.gpu.record import FOLDER, Book, folder_for
from benchmarks.gpu.timing import Clock
from benchmarks.whole_models import call
from forecast.benchmark.machine import choose_device
from forecast.common.cli import minutes
from forecast.common.errors import first_line
from forecast.common.tables import write_between
from forecast.runs.settings import exact_convolutions

ROUNDS = 30


def measure(part: Part, bench: Bench, book: Book) -> None:
    """Measure a part and add its rows; a failure is a row too."""
    began = monotonic()
    try:
        values = part.measure(bench)
        if any(value != value for value in values.values()):
            raise ValueError("a value is not a number")
    except Exception as error:  # whatever a part raises, the next one runs
        reason = f"{type(error).__name__}: {first_line(error)}"
        book.add(part.targets, {}, monotonic() - began, reason)
        print(f"{part.label}: failed: {reason}", flush=True)
        return
    book.add(part.targets, values, monotonic() - began)
    print(f"{part.label}: {', '.join(f'{value:.3g}' for value in values.values())}", flush=True)


def is_alive(device: torch.device) -> bool:
    """Return whether the device still computes: after some errors of a kernel, only a new process can use it."""
    try:
        return torch.ones(1, device=device).sum().item() == 1
    except RuntimeError:
        return False


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Measure what is left within the time and write its table, or write the table of a page."""
    if options.write is not None:
        write_between(options.write, BEGIN, END, crossing_table(Book(FOLDER, torch.device("cpu")).rows))
        return
    device = choose_device(options.device, torch.bfloat16)
    exact_convolutions()
    book = Book(folder_for(options.output, device, options.small), device)
    bench = Bench(device, Clock(device, 2 if options.small else ROUNDS), options.small)
    end = monotonic() + 60 * options.minutes
    left = [part for part in parts() if not all(map(book.has, part.targets))]
    book.write()
    for place, part in enumerate(left):
        if not options.small and monotonic() + part.seconds > end:
            print(
                f"{part.label}: not begun, it takes about {part.seconds:.0f} s: run the same command again to continue"
            )
            continue
        measure(part, bench, book)
        if not is_alive(device) and place + 1 < len(left):
            print("the device needs a new process", flush=True)
            minutes_left = max(0.01, (end - monotonic()) / 60)
            os.execv(
                sys.executable,
                [sys.executable, "-m", "benchmarks.gpu", *arguments, "--minutes", f"{minutes_left:.2f}"],
            )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add = parser.add_argument
    add("--minutes", type=minutes, default=8.0, help="a part whose estimate does not fit is not begun (default: 8)")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a trial, with --small (default: %(default)s)")
    add("--small", action="store_true", help="small shapes: whether every part runs; never written into the record")
    add("--write", type=Path, metavar="FILE", help="write the table of the page between its marks; measure nothing")
    add("--output", type=Path, help="folder of the rows and the table (default: benchmarks/records/gpu, on a GPU)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark for the command line; return the exit code."""
    return call("benchmarks.gpu", __doc__, add_options, run, arguments)


if __name__ == "__main__":
    sys.exit(main())
