"""How the program reads a written file: rightly, wrongly, or not at all.

    python -m tests.support.written.judge

prints the number of files of each kind that are read rightly, and every file that is read wrongly. It writes the list
of the other files, `not_yet.py`, again.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.core.override_parser.overrides_parser import OverridesParser

from forecast.common.errors import InputError
from forecast.data.settings import DataSettings
from forecast.data.sources import load_source
from forecast.tables.series import Series
from tests.support.small import compose
from tests.support.written.base import Written

RIGHT, WRONG, REFUSED = "right", "wrong", "refused"

LIST = Path(__file__).with_name("not_yet.py")

MOST_MESSAGES = 3
"""Messages that a user follows, one after the other."""

_QUOTED = re.compile(r"'(data\.\w+=[^']*)'")
_LIST = r"\[(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\]\"'])*\]"
_WORD = re.compile(rf"(?<![\w.])data\.\w+=(?:{_LIST}|\"[^\"]*\"|[^\s,;:()\[\]…]+(?:[:/][^\s,;:()]+)*)")


@dataclass(frozen=True)
class Judged:
    """The answer for a file: `RIGHT`, `WRONG` or `REFUSED`, and the message or the difference."""

    answer: str
    text: str = ""


def judge(item: Written, folder: Path) -> Judged:
    """Read a file as training does, follow the words of its messages, and compare the result with the truth."""
    path = folder / item.name
    path.write_bytes(item.content)
    options = dict(item.options)
    for _ in range(MOST_MESSAGES + 1):
        try:
            series = read(path, options)
        except InputError as error:
            text = str(error)
        else:
            difference = difference_of(series, item.truth)
            return Judged(WRONG if difference else RIGHT, difference or "")
        if item.refusal is None or (options == item.options and not re.search(item.refusal, text, re.DOTALL)):
            return Judged(REFUSED, text)
        if item.truth is None:
            return Judged(RIGHT)
        words = {key: value for key, value in words_of(text).items() if options.get(key) != value}
        if not words:
            return Judged(REFUSED, text)
        options |= words
    return Judged(REFUSED, text)


def read(path: Path, options: Mapping[str, Any]) -> Series:
    """Return the series of `data=csv data.path=…` and these options."""
    data = compose("data=csv", "data.path=x.csv", "data.name=x")["data"]
    return load_source(DataSettings.parse({**data, "path": str(path), **options})).series


def words_of(message: str) -> dict[str, Any]:
    """Return the first value of each option of `data` that a message names, as Hydra reads it."""
    quoted = _QUOTED.findall(message)
    found = [*quoted, *_WORD.findall(_QUOTED.sub(" ", message))]
    words: dict[str, Any] = {}
    for text in found:
        key, _, _ = text.partition("=")
        override = OverridesParser.create().parse_override(text.rstrip("."))
        value = override.value()
        words.setdefault(key.removeprefix("data."), getattr(value, "text", value))
    for key, value in words.items():
        if isinstance(value, list):
            words[key] = [getattr(cell, "text", cell) for cell in value]
    return words


def difference_of(series: Series, truth: pd.DataFrame | None) -> str | None:
    """Return the first difference between a series and the truth; None: they are the same."""
    if truth is None:
        return "read, although it is ambiguous"
    if "id" in truth.columns:
        return _difference_of_panel(series, truth)
    return _difference(series.measured, truth)


def _difference_of_panel(series: Series, truth: pd.DataFrame) -> str | None:
    if series.ids is None:
        return f"one series with the columns {list(series.frame.columns)[:9]}"
    places = {label: place for place, name in enumerate(series.ids.names) for label in name}
    expected = list(dict.fromkeys(truth["id"]))
    if len(series.ids) != len(expected) or not set(expected) <= set(places):
        return f"the ids {series.ids.names[:9]}"
    for label in expected:
        place = places[label]
        rows = slice(series.ids.first_rows[place], series.ids.offsets[place + 1])
        part = series.measured.iloc[rows]
        right = truth.loc[truth["id"] == label, ["value"]]
        if part.shape[1] != 1 or (difference := _difference(part.set_axis(["value"], axis=1), right)):
            return f"series {label}: {difference if part.shape[1] == 1 else list(part.columns)}"
    return None


def _difference(frame: pd.DataFrame, truth: pd.DataFrame) -> str | None:
    """Return the first difference of two tables; rows without any value do not count."""
    if list(frame.columns) != list(truth.columns):
        return f"columns {list(frame.columns)[:9]} for {list(truth.columns)[:9]}"
    frame, truth = (table.dropna(how="all") for table in (frame, truth))
    times, right = (_instants(pd.DatetimeIndex(table.index)) for table in (frame, truth))
    if len(times) != len(right):
        return f"{len(times)} rows for {len(right)}"
    if not times.equals(right):
        place = int(np.argmax(times != right))
        return f"row {place}: {times[place]} for {right[place]}"
    values, expected = frame.to_numpy(np.float64), truth.to_numpy(np.float64)
    same = np.isclose(values, expected, rtol=1e-12, atol=0, equal_nan=True)
    if not same.all():
        place = tuple(np.argwhere(~same)[0])
        return f"row {place[0]}: {values[place]} for {expected[place]}"
    return None


def _instants(times: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Return the times in UTC, in nanoseconds, without a name; a time without a zone is in UTC."""
    aware = times.tz_localize("UTC") if times.tz is None else times.tz_convert("UTC")
    return aware.as_unit("ns").rename(None)


def main() -> None:
    """Print the number of files of each kind that are read rightly, and write the list of the others."""
    from tests.support.written import corpus

    counts: dict[str, Counter[str]] = {}
    not_yet: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for item in corpus():
            judged = judge(item, Path(folder))
            counts.setdefault(item.kind, Counter())[judged.answer] += 1
            if judged.answer == REFUSED:
                not_yet.append(item.id)
            elif judged.answer == WRONG:
                print(f"WRONG {item.id}: {judged.text}")
    for kind, count in counts.items():
        print(f"{kind:30} {count[RIGHT]:3} of {count.total()}")
    print(sum(counts.values(), Counter()))
    head, _, _ = LIST.read_text(encoding="utf-8").partition("NOT_YET")
    lines = "".join(f"        {json.dumps(name)},\n" for name in not_yet)
    body = f"(\n    {{\n{lines}    }}\n)" if not_yet else "()"
    LIST.write_text(f"{head}NOT_YET: frozenset[str] = frozenset{body}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
