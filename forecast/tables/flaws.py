"""Problems of a table, reported together with the options that accept them."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forecast.common.errors import InputError
from forecast.common.text import counted

_SHOWN = 6
"""Largest number of flaws in one message; the others are counted."""

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS_OF_HYDRA = ("null", "true", "false", "nan", "inf")


class Flaws(InputError):
    """Several problems of one table."""

    flaws: Sequence["Flaw"] = ()


class Choice(InputError):
    """A problem with several options of which a user must choose one, as changes of the `data` group."""

    def __init__(self, message: str, options: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(message)
        self.options = options

    def add(self, found: Sequence[Sequence[InputError]]) -> None:
        """Add to the message the problems that the table also has; `found` are those after each option.

        They are the same after each option by which options can accept all of them.
        """
        open_ones = [errors for errors in found if all(error.words or isinstance(error, Choice) for error in errors)]
        texts = [{str(error) for error in errors} for errors in open_ones]
        if shared := [error for error in (open_ones or [[]])[0] if all(str(error) in other for other in texts)]:
            flaws = [flaw for flaw in shared if isinstance(flaw, Flaw)]
            more = str(shared[0]) if len(shared) == 1 else _complaint(flaws)
            self.args = (f"{self}; also, {more}",)


class Flaw(InputError):
    """A problem of a table that prevents its use as a series.

    `source` is the table's name in messages, `where` the place in it, as ", column 'load', row 7"; empty for the whole
    table. `word` is the training option that accepts the flaw, as `data.missing=mask`; None: edit the file. `more` are
    options that it needs too. `count` and `unit` say how much the option then changes, as 3 and "empty cell". `rows` is
    the number of rows that the table then has, if the flaw changes it.
    """

    def __init__(
        self,
        source: str,
        where: str,
        problem: str,
        cure: str,
        word: str | None = None,
        *,
        count: int = 0,
        unit: str = "",
        rows: int | None = None,
        more: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{source}{where}: {problem}: {cure}")
        self.source, self.where, self.problem, self.cure, self.word = source, where, problem, cure, word
        self.count, self.unit, self.rows, self.more = count, unit, rows, more

    def but(self, **changed: Any) -> "Flaw":
        """Return the flaw with other parts, by the names of the parameters."""
        return Flaw(**{**vars(self), **changed})

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]  # the word may be set later
        """The option that accepts the flaw, if one does."""
        return () if self.word is None else (self.word, *self.more)


EFFECT = {
    "data.missing": "fills {what} and never scores them; mask tells the model of them, ffill and interpolate do not",
    "data.duplicates": "merges {what} into the mean, or keeps the first or last row of a time",
    "data.targets": "leaves the other columns out",
    "data.categorical": "reads cells as labels",
    "data.time_column": "says which dates count",
    "data.time_zone": "reads the hour that occurs twice when clocks move back as two hours",
    "data.resample": "puts all rows into longer steps",
    "data.snap": "moves each time to the nearest step",
    "data.missing_values": "reads {what} as empty",
}
"""Effect of an option that accepts flaws; `what` is what it changes."""


def refuse_first(bad: np.ndarray, rows: np.ndarray, where: str, problem: Callable[[int, int], str]) -> None:
    """Raise InputError for the first row at which `bad` (N,) is true.

    `problem` returns the message after the place, from the index of the row and the number of such rows.
    """
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(f"{where}, row {rows[place]}: {problem(place, int(bad.sum()))}")


def refuse(flaws: Sequence[Flaw], more: str | None = None) -> None:
    """Raise one error that lists all flaws and the options that accept them, after a problem `more` of another kind.

    Do nothing without any.
    """
    if more is not None:
        raise InputError(f"{more}; also, {_complaint(flaws)}" if flaws else more)
    if len(flaws) == 1:
        raise flaws[0]
    if flaws:
        error = Flaws(_complaint(flaws))
        error.flaws = flaws
        if all(flaw.word is not None for flaw in flaws):
            error.words = tuple(dict.fromkeys(word for flaw in flaws for word in flaw.words))
        raise error


def _complaint(flaws: Sequence[Flaw]) -> str:
    """Return the message on flaws, with the options last."""
    if len(flaws) == 1:
        return str(flaws[0])
    named = [f"{flaw.where.removeprefix(', ')}: {flaw.problem}".removeprefix(": ") for flaw in flaws[:_SHOWN]]
    if len(flaws) > _SHOWN:
        named.append(f"and {len(flaws) - _SHOWN} more")
    words = [shlex.quote(word) for word in dict.fromkeys(word for flaw in flaws for word in flaw.words)]
    edits = sum(flaw.word is None for flaw in flaws)
    cures = ["correct them in the file"] if edits == len(flaws) else []
    if words:
        first = f"correct {edits} of them in the file, then " if edits else "correct the file, or "
        effects = "; ".join(f"{key} {text}" for key, text in _effects(flaws))
        cures = [f"{first}accept them ({effects}): train with {' '.join(words)}"]
    return f"{flaws[0].source} has {len(flaws)} problems: {'; '.join(named)}: {cures[0]}"


def _effects(flaws: Sequence[Flaw]) -> Iterator[tuple[str, str]]:
    """Yield each option that accepts some of the flaws, and its effect on them."""
    for key in dict.fromkeys(flaw.word.partition("=")[0] for flaw in flaws if flaw.word is not None):
        counts: dict[str, int] = {}
        for flaw in flaws:
            if flaw.unit and flaw.word is not None and flaw.word.startswith(f"{key}="):
                counts[flaw.unit] = counts.get(flaw.unit, 0) + flaw.count
        if key in EFFECT:
            yield key, EFFECT[key].format(what=" and ".join(counted(count, unit) for unit, count in counts.items()))


def list_word(key: str, names: Iterable[str]) -> str:
    """Return a training option that lists names, in Hydra's grammar: `data.targets=[load,"oil level"]`."""
    return f"{key}=[{','.join(map(quoted, names))}]"


def value_word(key: str, value: str) -> str:
    """Return a training option with a text value, in Hydra's grammar."""
    return f"{key}={quoted(value)}"


def quoted(name: str) -> str:
    """Return text as a value in Hydra's grammar, in quotation marks if it needs them."""
    if _PLAIN.fullmatch(name) and name.lower() not in _WORDS_OF_HYDRA:
        return name
    name = name.replace("${", "\\${")  # else OmegaConf would interpolate
    # escape quotation marks, and each backslash before one; a search from inside a run of them would be quadratic
    escaped = re.sub(r'(?<!\\)(\\*)"', lambda match: match[1] * 2 + '\\"', name)
    trailing = len(escaped) - len(escaped.rstrip("\\"))
    return f'"{escaped}{chr(92) * trailing}"'
