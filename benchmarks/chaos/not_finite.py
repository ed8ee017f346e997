"""Insert NaN, infinity and enormous numbers that a forecast or a training would propagate."""

import csv
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chaos.command import Ended, run
from benchmarks.chaos.fixtures import HORIZON, LONG, RUN, TABLE, Fixtures, copied, facts, hourly, put_table
from benchmarks.chaos.trial import Place, Verdict, complaint
from forecast.common.files import DIGEST, read_json
from forecast.runs.checkpoint import read_checkpoint, write_checkpoint
from forecast.runs.run import MANIFEST, Run

VALUES = (float("nan"), float("inf"), float("-inf"), 1e38, -3e38)


def prepare(fixtures: Fixtures) -> None:
    """Make the fixtures of the trials."""
    _ = fixtures.table, fixtures.courses, fixtures.sweep, fixtures.unfinished


def trial(place: Place) -> Verdict:
    """Insert a value in one place and run a command."""
    makers = {_step: 4, _weights: 2, _checkpoint: 3, _look_back: 2, _training_part: 2, _rate: 1}
    return place.random.choices(list(makers), list(makers.values()))[0](place)


def _step(place: Place) -> Verdict:
    """Insert a value into a training at one step; the same command must then finish without it."""
    rng = place.random
    course = rng.choice(list(place.fixtures.courses.values()))
    work = _work(place)
    at, what, value = rng.randrange(1, 40), rng.choice(("weight", "gradient", "state", "loss")), rng.choice(VALUES[:3])
    command = ["train", *course.words, "resume=auto"]
    ended = run(command, work, place.logs, before=lambda: _spoil(at, what, value), seconds=LONG)
    wrong = _ended_well(ended, work)
    again = run(command, work, place.logs, seconds=LONG)
    if wrong is None and again.code:
        wrong = f"lost: without it, the same command ended with exit code {again.code}: {again.error.strip()[-300:]}"
    if wrong is None and course.facts not in [facts(path.parent) for path in work.glob("outputs/**/manifest.json")]:
        wrong = "lost: without it, the run of the same command differs"
    return Verdict(
        wrong is None, f"{course.name}: {what} is {value} at step {at}", wrong or _came(ended), [ended, again]
    )


def _spoil(at: int, what: str, value: float) -> None:
    """Patch the task in this process so that it writes `value` to one of its numbers at step `at`."""
    import torch

    from forecast.training.task import ForecastTask

    begin, loss_of = ForecastTask.on_train_batch_start, ForecastTask.training_loss
    clip = ForecastTask.configure_gradient_clipping

    def on_train_batch_start(task: Any, *arguments: Any) -> Any:
        if task.global_step == at and what in ("weight", "state"):
            with torch.no_grad():
                if what == "weight":
                    next(task.parameters()).view(-1)[0] = value
                for state in task.optimizers().optimizer.state.values() if what == "state" else ():
                    state["exp_avg"].view(-1)[0] = value
        return begin(task, *arguments)

    def training_loss(task: Any, *arguments: Any) -> Any:
        loss = loss_of(task, *arguments)
        return loss * value if what == "loss" and task.global_step == at else loss

    def configure_gradient_clipping(task: Any, *arguments: Any, **options: Any) -> Any:
        if what == "gradient" and task.global_step == at:
            gradients = [parameter.grad for parameter in task.parameters() if parameter.grad is not None]
            gradients[0].view(-1)[0] = value
        return clip(task, *arguments, **options)

    for function in (on_train_batch_start, training_loss, configure_gradient_clipping):
        setattr(ForecastTask, function.__name__, function)


def _weights(place: Place) -> Verdict:
    """Write a number to the weights of a finished run, with a correct hash."""
    rng = place.random
    work = copied(place.fixtures.finished, place.folder)
    path = work / RUN / "model.safetensors"
    raw = path.read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    value, every = rng.choice(VALUES), rng.random() < 0.5
    body = np.frombuffer(raw[begin:], dtype="<f4").copy()
    if every:
        body[:] = value
    else:
        body[rng.randrange(len(body))] = value
    path.write_bytes(raw[:begin] + body.tobytes())
    manifest = read_json(work / RUN / MANIFEST)
    del manifest[DIGEST]
    Run(work / RUN).seal(manifest)
    name = rng.choice(("predict", "predict", "mean", "export"))
    predict = ["predict", "--input", TABLE, "--output", "out.csv", "--run", RUN]
    command = {
        "predict": predict,
        "mean": [*predict, "--attention", "mean"],
        "export": ["export", "--run", RUN, "--output", "out.pt2", "--input", TABLE],
    }[name]
    ended = run(command, work, place.logs, seconds=LONG)
    wrong = _ended_well(ended, work)
    amount = "all weights" if every else "one weight"
    return Verdict(wrong is None, f"{amount} {value}, then {name}", wrong or _came(ended), [ended])


def _checkpoint(place: Place) -> Verdict:
    """Write a number to the newest checkpoint of an unfinished run, with a correct hash."""
    rng = place.random
    work = copied(place.fixtures.unfinished, place.folder)
    path = max(work.glob("outputs/**/step-*.ckpt"))
    content = read_checkpoint(path)
    tensors = [tensor for tensor in _tensors(content) if tensor.is_floating_point() and tensor.numel()]
    tensor, value = rng.choice(tensors), rng.choice(VALUES[:3])
    tensor.view(-1)[rng.randrange(tensor.numel())] = value
    write_checkpoint(path.parent, content["step"], content)
    (folder,) = (path for path in (work / "outputs").glob("*/*") if path.is_dir())
    ended = run(["train", f"resume={folder.relative_to(work)}"], work, place.logs, seconds=LONG)
    wrong = _ended_well(ended, work)
    if wrong is None and ended.code == 0:
        runs = [facts(path.parent) for path in work.glob("outputs/**/manifest.json")]
        if place.fixtures.courses["patches"].facts not in runs:
            wrong = "silent: it resumed from a damaged checkpoint and its run differs"
    return Verdict(wrong is None, f"{value} in the newest checkpoint", wrong or _came(ended), [ended])


def _look_back(place: Place) -> Verdict:
    """Write a number out of range to the look-back of a forecast."""
    rng = place.random
    work = copied(place.fixtures.finished, place.folder)
    frame = hourly(160).astype({"date": str})
    column, row = rng.choice(["load", "oil", "air"]), rng.randrange(112, 160)
    value = rng.choice((1e20, -1e22, 1e25, 1e30, 1e36, 3e38, 1e300, float("inf")))
    frame.loc[row, column] = value
    frame.to_csv(work / "bad.csv", index=False)
    more = rng.choice(([], ["--attention", "mean"], ["--run", RUN]))
    ended = run(
        ["predict", "--run", RUN, "--input", "bad.csv", "--output", "out.csv", *more], work, place.logs, seconds=LONG
    )
    wrong = _ended_well(ended, work)
    if wrong is None and ended.code == 0:
        wrong = "silent: a value out of range was accepted"
    return Verdict(wrong is None, f"{value:g} in {column}, row {row + 2}, then predict", wrong or _came(ended), [ended])


def _training_part(place: Place) -> Verdict:
    """Write a number out of range to the table of a training."""
    rng = place.random
    work = _work(place)
    frame = hourly()
    column, row = rng.choice(["load", "oil", "air"]), rng.randrange(len(frame))
    value = rng.choice((1e20, -1e22, 1e25, 1e30, 1e36, 3e38))
    frame.loc[row, column] = value
    frame.to_csv(put_table(place.fixtures.table, work), index=False)
    ended = run(["train", *place.fixtures.courses["patches"].words], work, place.logs, seconds=LONG)
    wrong = _ended_well(ended, work)
    if wrong is None and ended.code == 0:
        wrong = "silent: a value out of range was accepted"
    return Verdict(wrong is None, f"{value:g} in {column}, row {row + 2}, then train", wrong or _came(ended), [ended])


def _rate(place: Place) -> Verdict:
    """Train with an enormous learning rate."""
    rng = place.random
    course = rng.choice(list(place.fixtures.courses.values()))
    rate = rng.choice(("1e6", "1e15", "1e30", "1e38"))
    more = rng.choice(([], ["training.max_grad_norm=null"], ["training.max_grad_norm=1e30"]))
    words = [word for word in course.words if not word.startswith("optimizer.lr=")]
    work = _work(place)
    ended = run(["train", *words, f"optimizer.lr={rate}", *more], work, place.logs, seconds=LONG)
    wrong = _ended_well(ended, work)
    what = f"{course.name}: learning rate {rate} {' '.join(more)}"
    return Verdict(wrong is None, what, wrong or _came(ended), [ended])


def _ended_well(ended: Ended, work: Path) -> str | None:
    """Return what is wrong with an end; None for a finite result, or for one line with exit code 2 or 3."""
    if (wrong := complaint(ended)) is not None:
        return wrong
    if ended.code not in (0, 2, 3):
        return f"exit code {ended.code}: {ended.error.strip()[-300:]}"
    for path in (*work.glob("out.csv"), *work.glob("outputs/*/*/forecast.csv")):
        if not all(map(math.isfinite, numbers_of(path))) or len(numbers_of(path)) < HORIZON:
            return f"{path.name} has numbers that are not finite"
    for path in work.glob("outputs/*/*/model.safetensors"):
        raw = path.read_bytes()
        if not np.isfinite(np.frombuffer(raw[8 + struct.unpack("<Q", raw[:8])[0] :], dtype="<f4")).all():
            return "the saved weights are not finite"
    if ended.code == 0 and (work / "out.pt2").exists():
        return "silent: exported a model that is not finite"
    for path in work.glob("scores.json"):
        if ended.code == 0 and '"mse": null' in path.read_text():
            return "silent: scores that are not numbers"
    return None


def _came(ended: Ended) -> str:
    return {0: "finite", 2: "refused", 3: "exit code 3"}[ended.code]


def numbers_of(path: Path) -> list[float]:
    """Return the values of a forecast; an empty cell is NaN."""
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    return [float(cell or "nan") for row in rows[1:] for cell in row[1:]]


def _work(place: Place) -> Path:
    work = place.folder / "work"
    work.mkdir()
    put_table(place.fixtures.table, work)
    return work


def _tensors(node: Any) -> Any:
    import torch

    if isinstance(node, torch.Tensor):
        yield node
    elif isinstance(node, dict | list | tuple):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _tensors(value)
