"""The end of an ensemble: the scores of the mean forecast of its members, in the folder of their sweep."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from forecast.common.text import duration
from forecast.predict.ensemble_scores import member_line, score_ensemble
from forecast.runs.ensemble import write_ensemble
from forecast.runs.read import read_jobs
from forecast.runs.resume import read_config
from forecast.runs.run import INPUT, Run
from forecast.runs.settings import Settings, exact_convolutions
from forecast.runs.summary import baseline_warning, interval_line, next_line, print_table
from forecast.training.prepare import make_data


def finish_ensemble(folder: Path, seeds: Sequence[int]) -> None:
    """Score the mean forecast of the finished runs of these seeds, write it into `folder`, and print what is next."""
    jobs = read_jobs(folder)
    members = jobs[jobs["of"].notna() & jobs["seed"].isin(seeds)].sort_values("seed")
    runs = [Run(Path(path)) for path in members["folder"]]
    settings = Settings.parse(read_config(runs[0].path))
    device = settings.trainer.device()
    exact_convolutions()
    data = make_data(settings.settled(), device)
    data.to(device)
    result = score_ensemble(runs, data)
    write_ensemble(folder, [run.path.name for run in runs], result)
    print_table(result)
    print(member_line(result))
    print(
        f"Cost: {len(runs)} trainings, {duration(result['speed']['fit_seconds'])} of fitting, "
        f"{result['model']['parameters']:,} parameters; a forecast takes the time of {len(runs)}."
    )
    if intervals := interval_line(result):
        print(intervals)
    if warning := baseline_warning(result):
        Console(soft_wrap=True).print(Text(f"WARNING: {warning}", "bold yellow"))
    place = shlex.quote(str(folder))
    print(f"Ensemble folder: {place} (ensemble.json; TensorBoard: tensorboard --logdir {place})")
    print(next_line(folder, result, runs[0].path / INPUT))
