"""What is understood of a table: `python -m forecast.tables my.csv`, as `forecast data my.csv`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("forecast.overview.__main__").main())
