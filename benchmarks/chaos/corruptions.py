"""Damage one file of a finished run, an unfinished run or an export, and run a command that reads it."""

import io
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.chaos.command import Ended, run
from benchmarks.chaos.fixtures import EXPORTS, LONG, OTHER, RUN, SWEEP, TABLE, Fixtures, copied, facts, sweep_facts
from benchmarks.chaos.trial import Place, Verdict, complaint

Damage = Callable[[Path, random.Random], str]


def flip(path: Path, rng: random.Random) -> str:
    """Flip one to three bits."""
    raw = bytearray(path.read_bytes())
    places = [rng.randrange(8 * len(raw)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    for place in places:
        raw[place // 8] ^= 1 << place % 8
    path.write_bytes(raw)
    return f"bits {', '.join(map(str, places))} flipped"


def truncate(path: Path, rng: random.Random) -> str:
    """Truncate the file, to an empty file in one case of five."""
    raw = path.read_bytes()
    size = 0 if rng.random() < 0.2 else rng.randrange(len(raw))
    path.write_bytes(raw[:size])
    return f"cut to {size} of {len(raw)} bytes"


def remove(path: Path, rng: random.Random) -> str:
    """Remove the file."""
    path.unlink()
    return "removed"


def blank(path: Path, rng: random.Random) -> str:
    """Overwrite a range with zeros, like a lost disk page."""
    raw = bytearray(path.read_bytes())
    begin = rng.randrange(len(raw))
    end = min(len(raw), begin + rng.choice((1, 8, 64, 512, 4096)))
    raw[begin:end] = bytes(end - begin)
    path.write_bytes(raw)
    return f"bytes {begin} to {end} zeroed"


def number(path: Path, rng: random.Random) -> str:
    """Change one digit of a text file, or overwrite eight bytes of a binary file."""
    raw = bytearray(path.read_bytes())
    if path.suffix in (".json", ".csv", ".yaml"):
        places = [match.start() for match in re.finditer(rb"\d", raw)]
        place = rng.choice(places)
        raw[place] = ord(rng.choice([digit for digit in "0123456789" if ord(digit) != raw[place]]))
        text = f"digit {place} changed"
    else:
        place = rng.randrange(max(1, len(raw) - 8))
        raw[place : place + 8] = rng.randbytes(8)
        text = f"bytes {place} to {place + 8} changed"
    path.write_bytes(raw)
    return text


def append(path: Path, rng: random.Random) -> str:
    """Append a part of the file to itself."""
    raw = path.read_bytes()
    more = raw[rng.randrange(len(raw)) :][:100] or b"0"
    path.write_bytes(raw + more)
    return f"{len(more)} bytes appended"


DAMAGES: tuple[Damage, ...] = (flip, flip, flip, truncate, truncate, remove, blank, number, number, append)


@dataclass(frozen=True)
class Reader:
    """A command that reads the damaged file.

    Attributes
    ----------
    command
        The command with its arguments.
    signature
        Function that returns its result for comparison with undamaged files, after exit code 0.
    may_skip
        Whether it may skip the damaged run, or train it again, with a line that names it.
    """

    command: list[str]
    signature: Callable[[Path, Ended], Any]
    may_skip: bool = False


def _forecast(work: Path, ended: Ended) -> str:
    return (work / "out.csv").read_text(encoding="utf-8")


def _printed(work: Path, ended: Ended) -> Any:
    """Return the facts of the run, with the printed output unless it was trained again."""
    return facts(work / RUN) if "training: " in ended.out else [facts(work / RUN), ended.out]


def _report(work: Path, ended: Ended) -> list[str]:
    return [(work / SWEEP / name).read_text(encoding="utf-8") for name in ("report.csv", "report.md")]


def _untimed(node: Any) -> Any:
    """Return the plain values without measured times and digests."""
    if isinstance(node, dict):
        timed = ("ms", "seconds", "digest")
        return {key: _untimed(value) for key, value in node.items() if not any(part in key for part in timed)}
    return [_untimed(value) for value in node] if isinstance(node, list) else node


def _sweep(work: Path, ended: Ended) -> Any:
    return sweep_facts(work / SWEEP)


def _readers(sweep_words: list[str]) -> dict[str, Reader]:
    """Return the commands that read a finished run."""
    predict = ["predict", "--input", TABLE, "--output", "out.csv"]
    return {
        "predict": Reader([*predict, "--run", RUN], _forecast),
        "mean": Reader([*predict, "--run", RUN, "--run", OTHER], _forecast),
        "attention": Reader([*predict, "--run", RUN, "--attention", "mean"], _forecast),
        "resume": Reader(["train", f"resume={RUN}"], _printed),
        "report": Reader(["report", "--runs", SWEEP], _report, may_skip=True),
        "sweep": Reader(["train", "-m", *sweep_words], _sweep, may_skip=True),
    }


SHARES = {"predict": 5, "mean": 2, "attention": 2, "resume": 5, "report": 4, "sweep": 3}
"""Weight of each command."""

READ = {
    "predict": ("model.safetensors", "manifest.json"),
    "mean": ("model.safetensors", "manifest.json"),
    "attention": ("model.safetensors", "manifest.json"),
    "resume": ("result.json", "config.json", "model.safetensors", "manifest.json", "errors.parquet"),
    "report": ("result.json", "errors.parquet", "manifest.json", "job.json"),
    "sweep": ("result.json", "config.json", "model.safetensors", "manifest.json", "job.json", "errors.parquet"),
}
"""Most important files of each command; two thirds of the trials damage one of them."""

QUICK = ("predict", "resume", "report")
"""Readers of quick fixtures."""


def reference(fixtures: Fixtures, name: str) -> Any:
    """Return the result of a reader on the undamaged finished runs, which is cached."""
    if name not in fixtures.references:
        folder = fixtures.folder / f"reference-{name}"
        reader = _readers(fixtures.sweep.words)[name]
        work = copied(fixtures.finished, folder)
        ended = run(reader.command, work, folder / "logs", seconds=LONG)
        if ended.code:
            raise RuntimeError(f"{name} cannot read the undamaged runs: {ended.text[-1000:]}")
        fixtures.references[name] = reader.signature(work, ended)
    return fixtures.references[name]


def prepare(fixtures: Fixtures) -> None:
    """Make the fixtures and the results of all readers on undamaged runs."""
    _ = fixtures.unfinished, fixtures.exported
    for name in _shares(fixtures):
        reference(fixtures, name)


def _shares(fixtures: Fixtures) -> dict[str, float]:
    """Return the readers with their weights."""
    return {name: share for name, share in SHARES.items() if name in QUICK or not fixtures.quick}


def trial(place: Place) -> Verdict:
    """Damage a file of one of the fixtures and run a command that reads it."""
    makers = {_finished: 6, _unfinished: 3, _exported: 0 if place.fixtures.quick else 1.2}
    return place.random.choices(list(makers), list(makers.values()))[0](place)


def _finished(place: Place) -> Verdict:
    rng, fixtures = place.random, place.fixtures
    work = copied(fixtures.finished, place.folder)
    shares = _shares(fixtures)
    name = rng.choices(list(shares), list(shares.values()))[0]
    reader = _readers(fixtures.sweep.words)[name]
    files = [path for path in (work / RUN).rglob("*") if path.is_file()]
    if name == "sweep":
        files += [path for path in (work / SWEEP).iterdir() if path.is_file()]
    if rng.random() < 2 / 3:
        files = [path for path in files if path.name in READ[name]]
    what, path = _damaged(files, rng)
    ended = run(reader.command, work, place.logs, seconds=place.patience, fresh=place.fresh)
    wrong, came = judged(ended, path, reader, lambda: reader.signature(work, ended) == reference(fixtures, name))
    return Verdict(wrong is None, f"{what}, then {name}", wrong or came, [ended])


def _unfinished(place: Place) -> Verdict:
    rng, course = place.random, place.fixtures.courses["patches"]
    work = copied(place.fixtures.unfinished, place.folder)
    files = [path for path in (work / "outputs").rglob("*") if path.is_file()]
    what, path = _damaged(files, rng)
    folder = next(path for path in (work / "outputs").glob("*/*") if path.is_dir()).relative_to(work)
    words = [f"resume={folder}"] if rng.random() < 0.6 else [*course.words, "resume=auto"]
    ended = run(["train", *words], work, place.logs, seconds=place.patience, fresh=place.fresh)

    def is_equal() -> bool:
        return course.facts in [facts(path.parent) for path in work.glob("outputs/**/manifest.json")]

    wrong, came = judged(ended, path, None, is_equal)
    return Verdict(wrong is None, f"unfinished: {what}, then {words[-1].partition('=')[2]}", wrong or came, [ended])


def _exported(place: Place) -> Verdict:
    rng = place.random
    work = copied(place.fixtures.exported, place.folder)
    what, path = _damaged([work / name for name in EXPORTS if (work / name).is_file()], rng)
    if not path.is_file():
        path.write_bytes(b"")
        what = what.replace("removed", "emptied")
    made_from = ["--run", RUN] if rng.random() < 0.3 else []
    command = ["predict", "--model", path.name, *made_from, "--input", TABLE, "--output", "out.csv"]
    ended = run(command, work, place.logs, seconds=place.patience, fresh=place.fresh)
    wrong, came = judged(
        ended, path, None, lambda: _is_near(_forecast(work, ended), reference(place.fixtures, "predict"))
    )
    return Verdict(wrong is None, f"export: {what}, then predict", wrong or came, [ended])


def _damaged(files: list[Path], rng: random.Random) -> tuple[str, Path]:
    """Damage one of the files; pictures and event files, which no command reads, are rarely chosen."""
    files = sorted(path for path in files if path.stat().st_size)
    shares = [0.1 if path.suffix == ".png" or "tfevents" in path.name else 1.0 for path in files]
    path = rng.choices(files, shares)[0]
    return f"{path.name}: {rng.choice(DAMAGES)(path, rng)}", path


def judged(ended: Ended, path: Path, reader: Reader | None, is_equal: Callable[[], bool]) -> tuple[str | None, str]:
    """Return what is wrong, or None, and the outcome of the damage."""
    may_skip = reader is not None and reader.may_skip
    names = [name for name in (path.name, path.parent.name, path.parent.parent.name) if len(name) > 2]
    reported = any(name in line for line in ended.text.splitlines() for name in names if _is_about_damage(line))
    if "a program error" in ended.text:
        return f"a program error: {ended.error.strip().splitlines()[-1][:300]}", ""
    if may_skip and ended.code == 1 and reported and "Traceback" not in ended.text and not ended.late:
        return None, "reported"
    if (wrong := complaint(ended)) is not None:
        return wrong, ""
    if ended.code == 2:
        line = ended.error.strip()[:300]
        return (None, "refused") if reported else (f"refused, but the line names no file: {line}", "")
    if ended.code:
        return f"exit code {ended.code}: {ended.error.strip()[:300]}", ""
    try:
        if is_equal():
            return None, "equal"
    except (OSError, ValueError, LookupError) as error:
        return f"silent: exit code 0, but the result is not readable: {error}", ""
    return (None, "reported") if may_skip and reported else ("silent: exit code 0, but another result", "")


def _is_about_damage(line: str) -> bool:
    words = (
        "error:",
        "damaged",
        "hash",
        "not readable",
        "left out",
        "skipped",
        "differs",
        "again",
        "changed",
        "cannot",
        "unfinished",
    )
    return any(word in line for word in words)


def _is_near(forecast: str, expected: str) -> bool:
    """Return whether two forecasts agree within the precision of an exported file."""
    actual, wanted = (pd.read_csv(io.StringIO(text), index_col=0) for text in (forecast, expected))
    return actual.shape == wanted.shape and bool(np.allclose(actual, wanted, rtol=1e-4, atol=0, equal_nan=True))
