"""The command `forecast`: `forecast train …`, `forecast predict …`; also `python -m forecast`."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

COMMANDS = {
    "train": ("training.command_line", "train, score and save a model; with -m, a sweep"),
    "predict": ("predict.__main__", "forecast the steps after a table with a trained model"),
    "backtest": ("backtest.__main__", "forecast a past stretch from many origins, and compare with what came"),
    "score": ("backtest.score", "compare a forecast that was made earlier with what came"),
    "explain": ("predict.explain", "what each column and each part of the past contributed to one forecast"),
    "report": ("report.__main__", "compare finished runs"),
    "data": ("overview.command", "what is understood of a table, and the words to train with"),
    "serve": ("serve.__main__", "answer requests for forecasts over HTTP, and show a page"),
    "plan": ("plan.__main__", "time and memory of a training before it starts"),
    "benchmark": ("benchmark.__main__", "time and memory of the attention mechanisms"),
    "check": ("check.__main__", "check the mechanisms, also your own"),
    "export": ("export.__main__", "write a model as .onnx or .pt2"),
}
"""Each command, with the module whose `main` it calls, and its purpose."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    name, *rest = words
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean {near[0]}?" if near else f"choose {', '.join(COMMANDS)}"
        print(f"error: {name!r} is not a command of forecast: {meant}", file=sys.stderr)
        return 2
    sys.argv = [f"forecast {name}", *rest]  # as a run records its command
    module = import_module(f"forecast.{COMMANDS[name][0]}")
    return int(module.main() or 0)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
    ends = "The options of a command: forecast <command> --help"
    return "\n".join(["Forecast time series.", "", "Usage: forecast <command> [options]", "", *lines, "", ends])


if __name__ == "__main__":
    sys.exit(main())
