"""Short trainings in one process or two: `python -m tests.training.parallel.ranks <meeting> <cases>`."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from lightning.pytorch.loggers.logger import DummyLogger

from forecast.common.group import Group
from forecast.common.place import Place
from forecast.evaluation.evaluate import Row
from forecast.evaluation.scoring import score
from forecast.model import compiling
from forecast.runs.checkpoint import newest_checkpoint
from forecast.runs.settings import Settings
from forecast.training.fit import fit
from tests.support.prepared import prepare
from tests.support.small import changed, hourly, quick, write


def cases(folder: Path) -> dict[str, dict[str, Any]]:
    """Return trainings without dropout by name; with plain gradient descent a step equals the gradient."""
    table = hourly()
    for first in range(60, 640, 47):  # each batch has gaps, and its two halves have different numbers of them
        table.loc[first : first + first % 17, ["load", "oil"]] = None
    gaps = ["data=csv", f"data.path={write(folder / 'gaps.csv', table)}", "data.missing=mask"]
    for first in range(60, 640, 47):  # steps without any value, for the tokens of the informer
        table.loc[first : first + first % 13, ["load", "oil", "air"]] = None
    hidden = ["data=csv", f"data.path={write(folder / 'hidden.csv', table)}", "data.missing=mask"]
    still = ["model.dropout=0", "training.max_grad_norm=null", "training.max_steps=1", "scheduler=cosine"]
    made = {
        "gaps": quick(folder, *gaps, *still, "model.linear_path=zero", "loss=mse"),
        "unused": quick(folder, *still, "attention=mean", "model.linear_path=zero", "training.max_steps=3"),
        "informer": quick(folder, *still, "loss=mse", model="informer"),
        "hidden": quick(folder, *hidden, *still, "loss=mse", model="informer"),
    }
    descent = {"_target_": "torch.optim.SGD", "lr": 1.0, "weight_decay": 0.01}
    level = {"_target_": "forecast.training.schedule.cosine", "warmup_steps": 0, "final_factor": 1.0}
    made = {name: {**config, "optimizer": descent, "scheduler": level} for name, config in made.items()}
    made["compiled"] = changed(made["unused"], training__compile=True)
    many = quick(folder, "model.dropout=0", "model.linear_path=zero", "training.validations_per_epoch=8")
    return {**made, "adam": changed(many, training__max_grad_norm=0.5)}


@patch.object(compiling, "compiler_for", lambda _: {"backend": "eager"})  # saves half a minute per case
def run(config: dict[str, Any], folder: Path, group: Group) -> dict[str, Any]:
    """Return the weights at the start and after the last step, and every row's test score."""
    folder.mkdir(parents=True, exist_ok=True)
    made = prepare(Settings.parse(config), group)
    start = {name: tensor.clone() for name, tensor in made.task.state_dict().items()}
    outcome = fit(made, folder, [DummyLogger()], group=group)
    held_out_blocks = outcome.held_out_blocks
    weights = (
        None
        if held_out_blocks is None
        else {str(place): dict(block.weights) for place, block in enumerate(held_out_blocks)}
    )
    result = {**vars(outcome), "held_out_blocks": weights}
    rows = score(made.network.eval(), made.data, made.linear_maps.baseline, group, held_out_blocks)
    if not group.leads:
        return {}
    newest = newest_checkpoint(folder)
    assert newest is not None
    scores = {name: row.test.sums.scaled() | _losses(row) for name, row in rows.items() if row is not None}
    return {"start": start, "end": newest["network"], "scores": scores, "best": newest["best"], "fit": result}


def _losses(row: Row) -> dict[str, float]:
    """Return the scores of calibrated intervals that change smoothly with the weights."""
    intervals = row.test.interval_scores()
    assert intervals is not None
    return {name: intervals[name] for name in ("sql", "width_80", "winkler_95")}


def main(rank: int, meeting: str, path: Path) -> None:
    torch.set_num_threads(1)
    group = Group(Place(rank, 2, rank, 2, meeting))
    group.connect()
    for name, config in json.loads(path.read_text()).items():
        outcome = run(config, path.parent / "two" / name, group)
        if group.leads:
            torch.save(outcome, path.parent / f"{name}.pt")
    group.close()


def fork(meeting: str, path: Path) -> int:
    """Train in this process and in a fork of it, which need not import again; return the exit code of the fork."""
    child = os.fork()
    if child:
        try:
            main(0, meeting, path)
        except BaseException:
            os.kill(child, signal.SIGKILL)  # it would wait for this process
            raise
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        main(1, meeting, path)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(fork(sys.argv[1], Path(sys.argv[2])))
