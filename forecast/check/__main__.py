"""Check that attention mechanisms keep the contract: `python -m forecast.check`."""

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
    """Run the command line; return the exit code, 1 if a check fails."""
    parser = argparse.ArgumentParser(
        prog="python -m forecast.check",
        description="Print what each attention mechanism declares, and check it on this machine. "
        "Exit code 0: all checks pass; 1: a check fails, with one line per failure or error; 2: invalid arguments.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help="mechanisms, as in attention=name (default: all)")
    parser.add_argument(
        "--length", type=int, help="sequence length of most checks (default: 160); memory grows with its square"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="device of the checks (default: cpu)")
    table = parser.add_mutually_exclusive_group()
    table.add_argument("--quiet", action="store_true", help="print only failures")
    table.add_argument("--markdown", action="store_true", help="print the declarations as Markdown; check nothing")
    table.add_argument("--write", type=Path, metavar="README.md", help="write that table between its marks in a file")
    options = parser.parse_args(arguments)
    failures: list[str] = []
    return finish(lambda: failures.extend(_run(options))) or int(bool(failures))


def _run(options: argparse.Namespace) -> list[str]:
    """Run one command; return the lines on failed checks."""
    from forecast.check import tables
    from forecast.common.tables import write_between

    candidates = _candidates(options)
    if options.markdown:
        print(tables.markdown(candidates))
    elif options.write:
        write_between(options.write, tables.BEGIN, tables.END, tables.markdown(candidates))
        print(f"{options.write}: table of {len(candidates)} mechanisms written")
    else:
        return _check(candidates, options.quiet)
    return []


def _candidates(options: argparse.Namespace) -> "list[Candidate]":
    """Return the requested mechanisms, each once, or all."""
    import torch

    from forecast.attention import available
    from forecast.attention._parsing import attention_arguments
    from forecast.check.candidate import LENGTH, Candidate

    for name in options.names:
        if name not in available():
            raise InputError(f"attention={name} does not exist: choose from {', '.join(available())}")
    if (options.markdown or options.write) and (options.length is not None or options.device):
        raise InputError(
            "--length and --device have no effect with --markdown or --write, which check nothing: leave them out"
        )
    length = LENGTH if options.length is None else options.length
    if length < LEAST_LENGTH:
        raise InputError(f"--length {length}: must be at least {LEAST_LENGTH}")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch finds no CUDA device: leave the option out")
    device = torch.device(options.device or "cpu")
    names = list(dict.fromkeys(options.names)) or available()
    return [Candidate(arguments, length, device) for arguments in attention_arguments(names).values()]


def _check(candidates: "list[Candidate]", quiet: bool) -> list[str]:
    """Run all checks and print the results; return the lines on failures."""
    import torch

    from forecast.check import suite, tables
    from forecast.kernels.fused import are_on, watch

    torch.set_num_threads(1)  # thousands of tiny products: more threads would wait for each other
    for candidate in candidates:
        candidate.build()  # invalid arguments are refused before any check runs
    findings, forms = [], {}
    for candidate in candidates:
        with watch() as forms[candidate.name]:
            findings.append(suite.examine(candidate))
    failures = [line for row in findings for line in tables.failures(row)]
    if not quiet:
        tables.print_tables(candidates, findings)
        if are_on() or candidates[0].device.type == "cuda":
            print(tables.forms_line(forms, are_on()))
        if not failures:
            print("\n".join(tables.success(findings)))
    for line in failures:
        print(line)
    return failures


if __name__ == "__main__":
    sys.exit(main())
