"""What is understood of a table: `python -m forecast.tables my.csv`, as `forecast data my.csv`."""

import sys
from collections.abc import Sequence
from importlib import import_module


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `forecast data`, which lies above the tables; return the exit code."""
    return int(import_module("forecast.overview.command").main(arguments))


if __name__ == "__main__":
    sys.exit(main())
