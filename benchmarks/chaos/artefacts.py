"""Open a run folder or an exported file that attacks its reader."""

import random
import shutil
from pathlib import Path

from benchmarks.chaos import attacks_configuration, attacks_files, attacks_manifest
from benchmarks.chaos.command import GROWTH, Ended, run
from benchmarks.chaos.fixtures import SWEEP, TABLE, Fixtures
from benchmarks.chaos.guard import Watch
from benchmarks.chaos.scene import EVIL, SECRET, Attack, Scene, Server, forge, into_sweep, set_up, snapshot
from benchmarks.chaos.trial import Place, Verdict, complaint

FORGED = 0.93
"""Fraction of the attacks with correct hashes and digests, as an attacker would write them."""

RESUME = (*("resume",) * 9, "sweep")
WEIGHTS = ("predict", "predict", "attention", "latest", "export")
ALL = (*WEIGHTS, "report", "resume", "sweep")

READERS: dict[Attack, tuple[float, tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(attacks_configuration.ATTACKS, (0.15, ("resume", "report", "export"), RESUME)),
    **dict.fromkeys(attacks_manifest.ATTACKS, (1.0, (*WEIGHTS, *ALL), RESUME)),
    **dict.fromkeys(attacks_files.ATTACKS, (0.6, ALL, RESUME)),
    attacks_manifest.result: (1.0, ("report", "report", "resume", "sweep"), RESUME),
    attacks_manifest.text: (0.7, ALL, RESUME),
    attacks_manifest.kinds: (0.7, ALL, RESUME),
    attacks_files.checkpoint: (0.0, RESUME, RESUME),
    attacks_files.pickled: (0.4, WEIGHTS, RESUME),
    attacks_files.errors_table: (1.0, ("report", "report", "sweep", "resume"), RESUME),
    attacks_files.weights: (1.0, (*WEIGHTS, *ALL), RESUME),
}
"""By attack: the probability of a finished run, and the commands that read a finished and an unfinished run."""


def prepare(fixtures: Fixtures) -> None:
    """Make the runs that the attacks change."""
    _ = fixtures.table, fixtures.sweep, fixtures.unfinished, fixtures.exported


def trial(place: Place) -> Verdict:
    """Make one attack, let one command read it, and check all effects."""
    rng = place.random
    attack = _drawn(rng)
    finished = rng.random() < READERS[attack][0]
    server = Server(place.folder / "asked", place.fixtures.table.read_bytes())
    try:
        scene = set_up(place, finished, server.port)
        if attack is attacks_files.export:
            for path in place.fixtures.exported.glob("model.*"):
                shutil.copy(path, scene.work)
        what = attack(scene)
        if rng.random() < FORGED:
            forge(scene.run)
        reader, command, writable = _reader(scene, place, attack)
        ended, changed = _opened(scene, place, command, writable)
    finally:
        requests = server.requests()
    wrong = _wrong(scene, ended, changed, requests)
    came = {0: "went on", 1: "job refused"}.get(ended.code, "refused")
    return Verdict(wrong is None, f"{what}, then {reader}", wrong or came, [ended])


def _drawn(rng: random.Random) -> Attack:
    groups = (attacks_configuration.ATTACKS, attacks_manifest.ATTACKS, attacks_files.ATTACKS)
    attacks = {attack: share for group in groups for attack, share in group.items()}
    return rng.choices(list(attacks), list(attacks.values()))[0]


def _reader(scene: Scene, place: Place, attack: Attack) -> tuple[str, list[str], list[Path]]:
    """Return the name of a command that reads the attack, the command, and the paths that it may write."""
    out = scene.work / "out"
    predict = ["predict", "--input", TABLE, "--output", "out/forecast.csv"]
    for path in scene.work.glob("evil.*"):
        return "predict --model", [*predict, "--model", path.name], [out]
    if (scene.work / "bomb.csv.gz").exists():
        return "predict of a bomb", [*predict[:2], "bomb.csv.gz", *predict[3:], "--run", EVIL], [out]
    _, of_finished, of_unfinished = READERS[attack]
    readers = of_finished if scene.finished else of_unfinished
    slow = ("sweep", "export") if place.fixtures.quick else ()
    name = scene.choose(*(reader for reader in readers if reader not in slow))
    if name == "sweep":
        into_sweep(scene, place)
        return name, ["train", "-m", *place.fixtures.sweep.words], [scene.work / SWEEP]
    command, writable = _of_run(name, predict, out, scene.run)
    return name, command, writable


def _of_run(name: str, predict: list[str], out: Path, folder: Path) -> tuple[list[str], list[Path]]:
    commands: dict[str, tuple[list[str], list[Path]]] = {
        "predict": ([*predict, "--run", EVIL], [out]),
        "latest": (predict, [out]),
        "attention": ([*predict, "--run", EVIL, "--attention", "mean"], [out]),
        "resume": (["train", f"resume={EVIL}"], [folder]),
        "report": (["report", "--runs", EVIL], [folder]),
        "export": (["export", "--run", EVIL, "--output", "out/model.pt2"], [out]),
    }
    return commands[name]


def _opened(scene: Scene, place: Place, command: list[str], writable: list[Path]) -> tuple[Ended, list[str]]:
    """Run the command under the guard; return its outcome and the paths that it changed without permission."""
    temporary, home = place.folder / "tmp", place.folder / "home"
    free = [*writable, place.logs, temporary, place.folder / "asked", place.folder / "trial.json"]
    before = snapshot(place.folder, free)
    watch = Watch(
        place.folder,
        writable=(*writable, temporary, place.logs),
        private=(scene.outside,),
        modules=frozenset(scene.modules),
    )
    environment = {SECRET: scene.secret, "HOME": str(home), "TMPDIR": str(temporary), "COLUMNS": "200"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(temporary / "inductor"), "MPLCONFIGDIR": str(temporary)}
    if place.fresh:
        (scene.work / "train.py").touch()
        before = snapshot(place.folder, [*free, scene.work / "train.py"])
        free.append(scene.work / "train.py")
    ended = run(
        command, scene.work, place.logs, watch=watch, environment=environment, seconds=place.patience, fresh=place.fresh
    )
    after = snapshot(place.folder, free)
    changed = [path for path in sorted(before | after) if before.get(path) != after.get(path)]
    return ended, [path for path in changed if "__pycache__" not in path]


def _wrong(scene: Scene, ended: Ended, changed: list[str], requests: int) -> str | None:
    """Return what the attack achieved, None if nothing."""
    if scene.mark.exists():
        return "executed: the payload ran"
    if requests:
        return f"contacted: {requests} requests reached the server"
    if ended.seen:
        events = "; ".join(f"{event} {about}" for event, about in ended.seen[:4])
        return f"observed: {events[:400]}"
    if changed:
        return f"changed outside: {', '.join(path.removeprefix(str(scene.folder)) for path in changed[:4])}"
    if scene.secret in ended.text or any(scene.secret in text for text in _texts(scene.folder)):
        return "leaked: the secret of the environment"
    if ended.growth is not None and ended.growth > GROWTH:
        return f"grew by {ended.growth / 2**30:.1f} GiB"
    if "a program error" in ended.text:
        return f"a program error: {ended.error.strip().splitlines()[-1][:300]}"
    if ended.code == 1 and "error: attention-full: " in ended.error and "Traceback" not in ended.text:
        return None  # the other job of the sweep ran
    return complaint(ended)


def _texts(folder: Path) -> list[str]:
    """Return the names of all files below the folder, and the contents of small files."""
    texts = []
    for path in folder.rglob("*"):
        texts.append(path.name)
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**22:
            texts.append(path.read_bytes().decode("latin-1"))
    return texts
