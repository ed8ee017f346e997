"""The flaws of a table, reported together with the options that accept them."""

import re
import shlex
from collections.abc import Iterable, Sequence

from forecast.common.errors import InputError

_SHOWN = 6
"""Most flaws that one message lists; the rest are counted."""

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS_OF_HYDRA = ("null", "true", "false", "nan", "inf")


class Flaw(InputError):
    """One problem that keeps a table from being a series.

    `source` names the table in messages, `where` the place in it, as ", column 'load', row 7"; empty for the whole
    table. `word` is the training option that accepts the flaw, as `data.missing=mask`; None: only an edit helps.
    """

    def __init__(self, source: str, where: str, problem: str, cure: str, word: str | None = None) -> None:
        super().__init__(f"{source}{where}: {problem}: {cure}")
        self.source, self.where, self.problem, self.cure, self.word = source, where, problem, cure, word


def refuse(flaws: Sequence[Flaw]) -> None:
    """Raise one error that lists every flaw and the options that accept them; do nothing without flaws."""
    if not flaws:
        return
    if len(flaws) == 1:
        raise flaws[0]
    named = [f"{flaw.where.removeprefix(', ')}: {flaw.problem}".removeprefix(": ") for flaw in flaws[:_SHOWN]]
    if len(flaws) > _SHOWN:
        named.append(f"and {len(flaws) - _SHOWN} more")
    words = list(dict.fromkeys(shlex.quote(flaw.word) for flaw in flaws if flaw.word is not None))
    own = sum(flaw.word is None for flaw in flaws)
    cures = [f"correct {'it' if own == 1 else 'them'} in the file"] if own == len(flaws) else []
    if words:
        first = f"correct {own} of them in the file, then " if own else "mend the file, or "
        cures = [f"{first}train with {' '.join(words)}"]
    raise InputError(f"{flaws[0].source} needs {len(flaws)} repairs: {'; '.join(named)}: {cures[0]}")


def list_word(key: str, names: Iterable[str]) -> str:
    """Return a training option that lists names, in Hydra's grammar: `data.targets=[load,"oil level"]`."""
    return f"{key}=[{','.join(map(_quoted, names))}]"


def value_word(key: str, value: str) -> str:
    """Return a training option with a text value, in Hydra's grammar."""
    return f"{key}={_quoted(value)}"


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in _WORDS_OF_HYDRA:
        return name
    name = name.replace("${", "\\${")  # or OmegaConf would put a value in
    # a quotation mark is escaped, and so is each backslash before one
    escaped = re.sub(r'(\\*)"', lambda match: match[1] * 2 + '\\"', name)
    trailing = len(escaped) - len(escaped.rstrip("\\"))
    return f'"{escaped}{chr(92) * trailing}"'
