"""Damage one file of a finished run, an unfinished run or an export, and let a command read it."""

import io
import json
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
    """Cut the file short, to nothing in one case of five."""
    raw = path.read_bytes()
    kept = 0 if rng.random() < 0.2 else rng.randrange(len(raw))
    path.write_bytes(raw[:kept])
    return f"cut to {kept} of {len(raw)} bytes"


def remove(path: Path, rng: random.Random) -> str:
    """Remove the file."""
    path.unlink()
    return "removed"


def blank(path: Path, rng: random.Random) -> str:
    """Overwrite a stretch with zeros, as a disk leaves a page that it lost."""
    raw = bytearray(path.read_bytes())
    begin = rng.randrange(len(raw))
    end = min(len(raw), begin + rng.choice((1, 8, 64, 512, 4096)))
    raw[begin:end] = bytes(end - begin)
    path.write_bytes(raw)
    return f"bytes {begin} to {end} zeroed"


def number(path: Path, rng: random.Random) -> str:
    """Change one digit of a text, or write another number over eight bytes."""
    raw = bytearray(path.read_bytes())
    if path.suffix in (".json", ".csv", ".yaml"):
        places = [match.start() for match in re.finditer(rb"\d", raw)]
        place = rng.choice(places)
        raw[place] = ord(rng.choice([digit for digit in "0123456789" if ord(digit) != raw[place]]))
        told = f"digit {place} changed"
    else:
        place = rng.randrange(max(1, len(raw) - 8))
        raw[place : place + 8] = rng.randbytes(8)
        told = f"bytes {place} to {place + 8} changed"
    path.write_bytes(raw)
    return told


def append(path: Path, rng: random.Random) -> str:
    """Append a piece of the file itself."""
    raw = path.read_bytes()
    more = raw[rng.randrange(len(raw)) :][:100] or b"0"
    path.write_bytes(raw + more)
    return f"{len(more)} bytes appended"


DAMAGES: tuple[Damage, ...] = (flip, flip, flip, truncate, truncate, remove, blank, number, number, append)


@dataclass(frozen=True)
class Reader:
    """A command that reads what was damaged.

    Attributes
    ----------
    command
        Its words.
    signature
        What it comes to, for comparison with the undamaged; called after it ended with 0.
    tells
        Whether it may leave the damaged run out, or make it again, with a line that names it.
    """

    command: list[str]
    signature: Callable[[Path, Ended], Any]
    tells: bool = False


def _forecast(work: Path, ended: Ended) -> str:
    return (work / "out.csv").read_text(encoding="utf-8")


def _printed(work: Path, ended: Ended) -> Any:
    """Return what a finished run's result looks like, and the facts where it was trained again."""
    return facts(work / RUN) if "training: " in ended.out else [facts(work / RUN), ended.out]


def _report(work: Path, ended: Ended) -> list[str]:
    return [(work / SWEEP / name).read_text(encoding="utf-8") for name in ("report.csv", "report.md")]


def _scores(work: Path, ended: Ended) -> Any:
    return _untimed(json.loads((work / "scores.json").read_text(encoding="utf-8")))


def _untimed(node: Any) -> Any:
    """Return the plain values without what was measured, and without the digest of both."""
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
        "report": Reader(["report", "--runs", SWEEP], _report, tells=True),
        "transplant": Reader(
            ["transplant", "--run", RUN, "--attention", "mean", "--quiet", "--output", "scores.json"], _scores
        ),
        "sweep": Reader(["train", "-m", *sweep_words], _sweep, tells=True),
    }


SHARES = {"predict": 5, "mean": 2, "attention": 2, "resume": 5, "report": 4, "transplant": 4, "sweep": 3}
"""How often each command reads."""

READ = {
    "predict": ("model.safetensors", "manifest.json"),
    "mean": ("model.safetensors", "manifest.json"),
    "attention": ("model.safetensors", "manifest.json"),
    "resume": ("result.json", "config.json", "model.safetensors", "manifest.json", "errors.parquet"),
    "report": ("result.json", "errors.parquet", "manifest.json", "job.json"),
    "transplant": ("model.safetensors", "manifest.json", "config.json"),
    "sweep": ("result.json", "config.json", "model.safetensors", "manifest.json", "job.json", "errors.parquet"),
}
"""The files that matter most to each command: two trials of three damage one of them."""

QUICK = ("predict", "resume", "report")
"""The readers of quick fixtures."""


def reference(fixtures: Fixtures, name: str) -> Any:
    """Return what a reader comes to on the undamaged finished runs, found out once."""
    if name not in fixtures.references:
        folder = fixtures.folder / f"reference-{name}"
        reader = _readers(fixtures.sweep.words)[name]
        work = copied(fixtures.finished, folder)
        ended = run(reader.command, work, folder / "logs", seconds=LONG)
        if ended.code:
            raise RuntimeError(f"{name} does not read the undamaged runs: {ended.text[-1000:]}")
        fixtures.references[name] = reader.signature(work, ended)
    return fixtures.references[name]


def prepare(fixtures: Fixtures) -> None:
    """Find out what all readers come to on undamaged fixtures."""
    _ = fixtures.unfinished, fixtures.exported
    for name in _shares(fixtures):
        reference(fixtures, name)


def _shares(fixtures: Fixtures) -> dict[str, float]:
    """Return the readers with how often each is drawn."""
    return {name: share for name, share in SHARES.items() if name in QUICK or not fixtures.quick}


def trial(place: Place) -> Verdict:
    """Damage a file of one of the fixtures and read it."""
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
    folder = next(each for each in (work / "outputs").glob("*/*") if each.is_dir()).relative_to(work)
    named = [f"resume={folder}"] if rng.random() < 0.6 else [*course.words, "resume=auto"]
    ended = run(["train", *named], work, place.logs, seconds=place.patience, fresh=place.fresh)

    def is_equal() -> bool:
        found = [facts(path.parent) for path in work.glob("outputs/**/manifest.json")]
        return course.facts in found

    wrong, came = judged(ended, path, None, is_equal)
    return Verdict(wrong is None, f"unfinished: {what}, then {named[-1].partition('=')[2]}", wrong or came, [ended])


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
    """Damage one of the files; pictures and event files, which no command reads, are seldom chosen."""
    files = sorted(path for path in files if path.stat().st_size)
    shares = [0.1 if path.suffix == ".png" or "tfevents" in path.name else 1.0 for path in files]
    path = rng.choices(files, shares)[0]
    return f"{path.name}: {rng.choice(DAMAGES)(path, rng)}", path


def judged(ended: Ended, path: Path, reader: Reader | None, is_equal: Callable[[], bool]) -> tuple[str | None, str]:
    """Return what is wrong, if anything, and what came of the damage."""
    tells = reader is not None and reader.tells
    names = [name for name in (path.name, path.parent.name, path.parent.parent.name) if len(name) > 2]
    told = any(name in line for line in ended.text.splitlines() for name in names if _is_about_damage(line))
    if "a program error" in ended.text:
        return f"a program error: {ended.error.strip().splitlines()[-1][:300]}", ""
    if tells and ended.code == 1 and told and "Traceback" not in ended.text and not ended.late:
        return None, "told"
    if (wrong := complaint(ended)) is not None:
        return wrong, ""
    if ended.code == 2:
        return (None, "refused") if told else (f"refused, but the line names no file: {ended.error.strip()[:300]}", "")
    if ended.code:
        return f"exit code {ended.code}: {ended.error.strip()[:300]}", ""
    try:
        if is_equal():
            return None, "equal"
    except (OSError, ValueError, LookupError) as error:
        return f"silent: exit code 0, and the result is not readable: {error}", ""
    return (None, "told") if tells and told else ("silent: exit code 0, and another result without a word", "")


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
    """Return whether two forecasts are equal but for the last digits, as those of an exported file are."""
    found, wanted = (pd.read_csv(io.StringIO(text), index_col=0) for text in (forecast, expected))
    return found.shape == wanted.shape and bool(np.allclose(found, wanted, rtol=1e-4, atol=0, equal_nan=True))
