"""Comments of the options in `conf/`, written from the declared options: `python -m benchmarks.comments`.

Each option of a base file has the text of its `Option` beside it. Other files have comments of their own.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from forecast.common.cli import finish
from forecast.common.conf_files import configuration_folder
from forecast.common.files import replacing
from forecast.common.settings import Option, options_of
from forecast.data.settings import DataSettings
from forecast.model.presets import OPTIONS
from forecast.runs.settings import EvaluationSettings, Settings, TrainerSettings, TrainingSettings
from forecast.training.sweep.settings import SweepSettings

FILES: dict[str, Mapping[str, Option]] = {
    "config.yaml": options_of(Settings)
    | {f"evaluation.{key}": each for key, each in options_of(EvaluationSettings).items()}
    | {f"sweep.{key}": each for key, each in options_of(SweepSettings).items()},
    **{f"data/{name}.yaml": options_of(DataSettings) for name in ("_file", "csv", "synthetic", "diagnostic")},
    **{f"model/{name}.yaml": options_of(declared) for name, declared in OPTIONS.items()},
    "trainer/default.yaml": options_of(TrainerSettings),
    "training/default.yaml": options_of(TrainingSettings),
}
"""The base files of `conf/`, and the options that each may set."""


def commented(text: str, options: Mapping[str, Option]) -> str:
    """Return the text of a YAML file with the meaning of each declared option as its comment."""
    group, lines = "", []
    for line in text.splitlines():
        if match := re.match(r"( *)(\w+):( (?!#)[^#]*?)?( *#.*)?$", line):
            indent, key, value, _ = match.groups()
            group = group if indent else f"{key}."
            declared = options.get(f"{group}{key}" if indent else key)
            if declared is not None:
                line = f"{indent}{key}:{(value or '').rstrip()}  # {declared.comment}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    argparse.ArgumentParser(prog="python -m benchmarks.comments", description=__doc__).parse_args(arguments)
    return finish(lambda: write(configuration_folder()))


def write(folder: Path) -> None:
    """Write the comments of the files in `folder`."""
    for name, options in FILES.items():
        with replacing(folder / name) as file:
            file.write(commented((folder / name).read_text(encoding="utf-8"), options).encode())


if __name__ == "__main__":
    sys.exit(main())
