"""Check every attention mechanism against what it promises: `python -m forecast.check`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.common.cli import finish
from forecast.common.errors import InputError

if TYPE_CHECKING:
    from forecast.check.candidate import Candidate

LEAST_LENGTH = 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Check as the command line says; give the exit code, 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.check",
        description="Print what each attention mechanism declares, and measure whether it holds on this machine. "
        "Exit code 0: all of it holds; 1: something does not, each in a line of its own; 2: unknown name.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help="mechanisms, as in attention=name; none: all")
    parser.add_argument(
        "--length", type=int, help="positions where a check leaves them free (160); memory grows with the square"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="where to measure (cpu)")
    table = parser.add_mutually_exclusive_group()
    table.add_argument("--quiet", action="store_true", help="print nothing but what fails")
    table.add_argument("--markdown", action="store_true", help="print what is declared as Markdown; measure nothing")
    table.add_argument("--write", type=Path, metavar="README.md", help="put that Markdown between its marks in a file")
    options = parser.parse_args(arguments)
    failures: list[str] = []
    return finish(lambda: failures.extend(_run(options))) or int(bool(failures))


def _run(options: argparse.Namespace) -> list[str]:
    """Do what is asked and give a line for each promise that is not kept."""
    from forecast.check import tables as declared

    candidates = _candidates(options)
    if options.markdown:
        print(declared.markdown(candidates))
    elif options.write:
        declared.write_markdown(options.write, candidates)
        print(f"{options.write}: {len(candidates)} mechanisms")
    else:
        return _measure(candidates, options.quiet)
    return []


def _candidates(options: argparse.Namespace) -> "list[Candidate]":
    """Return the mechanisms asked for, each once, or all of the folder."""
    import torch

    from forecast.attention import available
    from forecast.attention._parsing import attention_arguments
    from forecast.check.candidate import LENGTH, Candidate

    for name in options.names:
        if name not in available():
            raise InputError(f"attention={name} does not exist: choose from {', '.join(available())}")
    if (options.markdown or options.write) and (options.length is not None or options.device):
        raise InputError(
            "--length and --device are for measuring, --markdown and --write measure nothing: leave them out"
        )
    length = LENGTH if options.length is None else options.length
    if length < LEAST_LENGTH:
        raise InputError(f"--length {length}: must be at least {LEAST_LENGTH}")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no CUDA device here: leave the option out")
    device = torch.device(options.device or "cpu")
    names = list(dict.fromkeys(options.names)) or available()
    return [Candidate(arguments, length, device) for arguments in attention_arguments(names).values()]


def _measure(candidates: "list[Candidate]", quiet: bool) -> list[str]:
    """Print what was found and give the lines of what fails."""
    import torch

    from forecast.check import suite, tables

    torch.set_num_threads(1)  # thousands of tiny products: threads would wait for one another
    for candidate in candidates:
        candidate.build()  # what is refused is refused before anything is measured
    findings = [suite.examine(candidate) for candidate in candidates]
    failures = [tables.failure(finding) for row in findings for finding in row if not finding.passed]
    if not quiet:
        tables.print_tables(candidates, findings)
        if not failures:
            print(f"all hold: {len(suite.CHECKS)} checks of {', '.join(candidate.name for candidate in candidates)}")
    for line in failures:
        print(line)
    return failures


if __name__ == "__main__":
    sys.exit(main())
