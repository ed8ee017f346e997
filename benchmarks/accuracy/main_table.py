"""The table of each data set: the ridge, every mechanism and the controls at every horizon."""

from collections.abc import Callable, Iterator
from statistics import fmean

from benchmarks.accuracy.plan import ENSEMBLE, EVERYWHERE, HORIZONS, MAIN
from benchmarks.accuracy.published import PUBLISHED
from benchmarks.accuracy.scores import NONE, Scores
from forecast.common.tables import table
from forecast.evaluation.metrics import ROUNDING

TITLES = {"etth1": "ETTh1", "etth2": "ETTh2", "pjme": "PJM East"}

At = Callable[[int], Scores]


def main_tables(scores: Scores) -> Iterator[str]:
    """Yield a table for each data set that has rows, and what they come to."""
    shown = scores.where(recipe=MAIN)
    for dataset in (name for name in HORIZONS if name in shown.values("dataset")):
        yield _title(shown.where(dataset=dataset), dataset)
        yield _table(scores.where(dataset=dataset), dataset)
    if told := _against_ridge(shown):
        yield told


def ordered(attentions: list[str]) -> list[str]:
    """Return mechanisms in the tables' order: `full` first, the control last."""
    return sorted(attentions, key=lambda name: (name != "full", name == "mean", name))


def _title(scores: Scores, dataset: str) -> str:
    look_backs = ", ".join(f"{int(length):,}" for length in scores.values("context_length"))
    windows = [count for horizon in HORIZONS[dataset] for count in scores.where(horizon=horizon).values("windows")]
    counts = " / ".join(f"{int(count):,}" for count in windows)
    return f"**{TITLES[dataset]}**, look-back {look_backs}, all {counts} test windows: MSE / MAE on z-scores"


def _table(scores: Scores, dataset: str) -> str:
    horizons = HORIZONS[dataset]

    def at(horizon: int) -> Scores:
        return scores.where(horizon=horizon)

    rows = [_row("linear (ridge)", lambda horizon: at(horizon).ridge, dataset, whose="linear")]
    for attention in ordered(scores.where(recipe=MAIN).values("attention")):
        label = f"`{attention}`" + (", the control" if attention == "mean" else "")
        rows.append(_row(label, _of(at, attention, MAIN), dataset))
        if attention == "full":
            rows.append(_row("`full`, forecasts of three seeds averaged", _of(at, attention, ENSEMBLE), dataset))
    rows.append(_row("`mean` everywhere", _of(at, "mean", EVERYWHERE), dataset))
    rows = [row for row in rows if any(row[1:])]
    if dataset in PUBLISHED:
        best = [PUBLISHED[dataset][horizon] for horizon in horizons]
        mean = f"{fmean(value for value, _ in best):.3f}"
        rows.append(["best published, not run here", *(f"{value:.3f} ({whose})" for value, whose in best), mean])
    return table(["forecast", *map(str, horizons), "mean"], rows)


def _of(at: At, attention: str, recipe: str) -> At:
    return lambda horizon: at(horizon).where(attention=attention, recipe=recipe)


def _row(label: str, at: At, dataset: str, whose: str = "test") -> list[str]:
    """Return a row; its mean over the horizons only where each of them has a run."""
    found = [at(horizon) for horizon in HORIZONS[dataset]]
    means = [[each.mean(f"{whose}_{score}") for each in found] for score in ("mse", "mae")]
    whole = [fmean(mean.value for mean in row if mean is not None) for row in means if None not in row]
    return [label, *(each.cell(whose) for each in found), " / ".join(f"{value:.3f}" for value in whole)]


def _against_ridge(scores: Scores) -> str:
    """Return how `full` and the ridge compare over all cells of the sets that others have published on."""
    cells = [scores.where(dataset=dataset, horizon=horizon) for dataset in PUBLISHED for horizon in HORIZONS[dataset]]
    cells = [cell for cell in cells if cell.where(attention="full").rows]
    if not cells:
        return NONE
    said = []
    for score in ("mse", "mae"):
        full = [fmean(float(row[f"test_{score}"]) for row in cell.where(attention="full").rows) for cell in cells]
        ridge = [float(cell.ridge.rows[0][f"linear_{score}"]) for cell in cells]
        lower = sum(ours < theirs * (1 - ROUNDING) for ours, theirs in zip(full, ridge, strict=True))
        said.append(f"{score.upper()} {fmean(full):.4f} against {fmean(ridge):.4f}, lower in {lower}")
    return f"Over the {len(cells)} cells of ETTh1 and ETTh2 with `full`, the mean against that of the ridge: " + (
        f"{said[0]}; {said[1]}."
    )
