"""Tables with one damaged byte, read as a training reads them; each file in a process of its own.

    python -m benchmarks.chaos.damaged_tables --files 1000 --minutes 25

A process forks for each file, and what it reads with a guarded child process is read with one here too. The table that
is printed counts the outcomes of each format. *Otherwise* are files that are read with another time or value: a changed
digit of a text file is a digit.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd

from forecast.common.errors import InputError
from forecast.tables.series import read_series
from forecast.tables.writing import write_into

OUTCOMES = ("refused in one line", "read rightly", "read otherwise", "crashed", "slow")

SLOW_SECONDS = 10.0
"""Processor time, with that of a child process, from which a file is slow."""

_PATIENCE = 300.0


def table() -> pd.DataFrame:
    """Return 200 hours of two columns."""
    hours = pd.date_range("2022-01-01", periods=200, freq="h", name="date")
    return pd.DataFrame({"load": np.arange(200) / 8, "oil": np.arange(200.0) ** 2}, index=hours)


def content_of(name: str) -> bytes:
    """Return the content of an undamaged file of this name."""
    file = BytesIO()
    write_into(file, Path(name), table())
    return file.getvalue()


NAMES = {"CSV": "table.csv", "Parquet": "table.parquet", "Feather": "table.feather", "Excel": "table.xlsx"}


def outcome(path: Path) -> str:
    """Return how a file is read."""
    try:
        frame = read_series(path).frame
    except InputError as error:
        return OUTCOMES[0] if len(str(error).splitlines()) == 1 else OUTCOMES[3]
    same = list(frame.columns) == list(table().columns) and frame.index.equals(
        pd.DatetimeIndex(table().index).as_unit("ns")
    )
    return OUTCOMES[1] if same and np.array_equal(frame, table()) else OUTCOMES[2]


def _tell(path: Path, tell: Callable[[tuple[str, float]], None]) -> None:
    answer = outcome(path)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(each.ru_utime + each.ru_stime for each in used)
    tell((OUTCOMES[4] if seconds > SLOW_SECONDS else answer, seconds))


def judge(path: Path) -> tuple[str, float]:
    """Return how a fork reads a file, and its processor time."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_tell, args=(path, send.send))
    process.start()
    send.close()
    try:
        answer = receive.recv() if receive.poll(_PATIENCE) else (OUTCOMES[4], _PATIENCE)
    except EOFError:  # it ended without an answer
        answer = (OUTCOMES[3], 0.0)
    process.kill()
    process.join()
    return answer


def damaged(content: bytes, place: Random) -> bytes:
    """Return the content with one changed byte."""
    changed = bytearray(content)
    changed[place.randrange(len(changed))] ^= place.randrange(1, 256)
    return bytes(changed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage files of each format in turn, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos.damaged_tables", description=__doc__)
    parser.add_argument("--files", type=int, default=1000, help="files of each format")
    parser.add_argument("--minutes", type=float, default=25.0, help="time after which no file is damaged any more")
    parser.add_argument("--formats", nargs="+", choices=NAMES, default=list(NAMES))
    options = parser.parse_args(arguments)
    until, counts = time.monotonic() + 60 * options.minutes, {name: Counter[str]() for name in options.formats}
    longest = dict.fromkeys(options.formats, 0.0)
    contents = {name: content_of(NAMES[name]) for name in options.formats}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.files):
            for name, content in contents.items():
                if time.monotonic() > until:
                    continue
                path = Path(folder) / NAMES[name]
                path.write_bytes(damaged(content, Random(f"{name}:{turn}")))
                answer, seconds = judge(path)
                counts[name][answer] += 1
                longest[name] = max(longest[name], seconds)
                if answer in OUTCOMES[3:]:
                    print(f"{answer}: {name}:{turn}", flush=True)
    print(f"| format | files | {' | '.join(OUTCOMES)} | longest |\n|{'---|' * 8}")
    for name, count in counts.items():
        cells = [count.total(), *(count[word] for word in OUTCOMES), f"{longest[name]:.1f} s"]
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    return int(any(count[word] for count in counts.values() for word in OUTCOMES[3:]))


if __name__ == "__main__":
    sys.exit(main())
