"""The record as the README shows it: a table for each data set, attention's share, and the ladder to the recipe."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.accuracy.recipes import BY_NAME, ENSEMBLE, EVERYWHERE, HORIZONS, LADDER, MAIN, RECIPES
from benchmarks.accuracy.record import Record
from forecast.common.tables import table, write_between
from forecast.evaluation.metrics import ROUNDING

BEGIN = "<!-- results: written by python -m benchmarks.accuracy --write README.md -->"
END = "<!-- /results -->"
EMPTY = "No run has been recorded yet."
TITLES = {"etth1": "ETTh1", "etth2": "ETTh2", "pjme": "PJM East"}

PUBLISHED: Mapping[str, Mapping[int, tuple[float, str]]] = {
    "etth1": {96: (0.351, "SegRNN"), 192: (0.390, "SegRNN"), 336: (0.414, "DUET"), 720: (0.426, "SRSNet")},
    "etth2": {96: (0.270, "DUET"), 192: (0.324, "SRSNet"), 336: (0.349, "SRSNet"), 720: (0.378, "FITS")},
}
"""By data set and horizon: the lowest test MSE on z-scores, and whose.

From the projects' own tables, of those that leave out no test window, each with its look-back chosen: SegRNN (as in
the README of SparseTSF), DUET, SRSNet, FITS.
"""

Rows = Sequence[Record]


def write_tables(path: Path, rows: Rows) -> None:
    """Put the tables between the two marks in the file."""
    write_between(path, BEGIN, END, tables(rows))


def tables(rows: Rows) -> str:
    """Return every table that there are rows for, as Markdown."""
    return "\n\n".join([*main_tables(rows), *share_table(rows), *ladder_table(rows)]) or EMPTY


def where(rows: Rows, **wanted: str | int) -> list[Record]:
    """Return the rows that have these values in these columns."""
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def unique(rows: Rows, column: str) -> list[str]:
    """Return the different values of a column."""
    return list(dict.fromkeys(row[column] for row in rows))


def ordered(attentions: list[str]) -> list[str]:
    """Return mechanisms in the tables' order: `full` first, the control last."""
    return sorted(attentions, key=lambda name: (name != "full", name == "mean", name))


def mean_of(rows: Rows, column: str) -> float:
    """Return the mean of a column."""
    return fmean(float(row[column]) for row in rows)


def shown(rows: Rows, column: str = "test_mse") -> str:
    """Return a column's mean, with the standard deviation over several seeds; nothing if there is no row."""
    values = [float(row[column]) for row in rows]
    spread = f" ± {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}" if values else ""


def main_tables(rows: Rows) -> Iterator[str]:
    """Yield a table for each data set that has rows, and how `full` compares with the ridge."""
    main = where(rows, recipe=MAIN)
    for dataset in (name for name in HORIZONS if name in unique(main, "dataset")):
        yield _title(where(main, dataset=dataset), dataset)
        yield _table(where(rows, dataset=dataset), dataset)
    cells = [where(main, dataset=dataset, horizon=horizon) for dataset in PUBLISHED for horizon in HORIZONS[dataset]]
    if cells := [cell for cell in cells if where(cell, attention="full")]:
        mse, mae = (_against_ridge(cells, score) for score in ("mse", "mae"))
        over = f"Over the {len(cells)} cells of ETTh1 and ETTh2 with `full`, the mean against that of the ridge"
        yield f"{over}: {mse}; {mae}."


def _title(main: Rows, dataset: str) -> str:
    look_backs = ", ".join(f"{int(length):,}" for length in unique(main, "context_length"))
    windows = [count for horizon in HORIZONS[dataset] for count in unique(where(main, horizon=horizon), "windows")]
    counts = " / ".join(f"{int(count):,}" for count in windows)
    return f"**{TITLES[dataset]}**, look-back {look_backs}, all {counts} test windows: MSE / MAE on z-scores"


def _table(rows: Rows, dataset: str) -> str:
    horizons = HORIZONS[dataset]
    at = [where(rows, horizon=horizon) for horizon in horizons]
    lines = [_line("linear (ridge)", [_ridge(each) for each in at], "linear")]
    for attention in ordered(unique(where(rows, recipe=MAIN), "attention")):
        label = f"`{attention}`" + (", the control" if attention == "mean" else "")
        lines.append(_line(label, [where(each, attention=attention, recipe=MAIN) for each in at]))
        if attention == "full":
            averages = [where(each, attention=attention, recipe=ENSEMBLE) for each in at]
            lines.append(_line("`full`, forecasts of three seeds averaged", averages))
    lines.append(_line("`mean` everywhere", [where(each, attention="mean", recipe=EVERYWHERE) for each in at]))
    lines = [line for line in lines if any(line[1:])]
    if dataset in PUBLISHED:
        best = [PUBLISHED[dataset][horizon] for horizon in horizons]
        mean = f"{fmean(value for value, _ in best):.3f}"
        lines.append(["best published, not run here", *(f"{value:.3f} ({whose})" for value, whose in best), mean])
    return table(["forecast", *map(str, horizons), "mean"], lines)


def _line(label: str, cells: list[list[Record]], whose: str = "test") -> list[str]:
    """Return a line; its mean over the horizons only where each of them has a run."""
    columns = [f"{whose}_{score}" for score in ("mse", "mae")]
    texts = []
    for rows in cells:
        pair = " / ".join(shown(rows, column) for column in columns)
        texts.append("" if not rows else pair + (f" ({len(rows)})" if len(rows) > 1 else ""))
    means = [fmean(mean_of(rows, column) for rows in cells) for column in columns] if all(cells) else []
    return [label, *texts, " / ".join(f"{mean:.3f}" for mean in means)]


def _ridge(rows: Rows) -> list[Record]:
    """Return the row whose run's own ridge stands for all: that of `full`, else the first."""
    main = where(rows, recipe=MAIN)
    return [*where(main, attention="full"), *main][:1]


def _against_ridge(cells: list[list[Record]], score: str) -> str:
    full = [mean_of(where(cell, attention="full"), f"test_{score}") for cell in cells]
    ridge = [mean_of(_ridge(cell), f"linear_{score}") for cell in cells]
    lower = sum(ours < theirs * (1 - ROUNDING) for ours, theirs in zip(full, ridge, strict=True))
    return f"{score.upper()} {fmean(full):.4f} against {fmean(ridge):.4f}, lower in {lower}"


VARIANTS = (MAIN, "no_linear_path", "no_linear_path_fitted", "pointwise")


def share_table(rows: Rows) -> Iterator[str]:
    """Yield the table of attention's share, over the data sets and horizons that have a row of another variant."""
    lines = []
    for dataset, horizons in HORIZONS.items():
        for at in (where(rows, dataset=dataset, horizon=horizon) for horizon in horizons):
            variants = [variant for variant in VARIANTS if where(at, recipe=variant)]
            lines += [(at, variant) for variant in variants if variants != [MAIN]]
    if not lines:
        return
    attentions = ordered(unique([row for at, variant in lines for row in where(at, recipe=variant)], "attention"))
    yield "**Attention's share**: MSE of the same runs with another mechanism in self-attention, or the mean everywhere"
    headings = ["run", *(f"`{name}`" for name in attentions), "`mean` everywhere"]
    yield table(headings, [_share_line(at, variant, attentions) for at, variant in lines])


def _share_line(at: Rows, variant: str, attentions: list[str]) -> list[str]:
    everywhere = EVERYWHERE if variant == MAIN else f"{variant}_{EVERYWHERE}"
    label = f"{TITLES[at[0]['dataset']]}-{at[0]['horizon']}, {BY_NAME[variant].label}"
    cells = [shown(where(at, recipe=variant, attention=name)) for name in attentions]
    return [label, *cells, shown(where(at, recipe=everywhere))]


def ladder_table(rows: Rows) -> Iterator[str]:
    """Yield the table of the steps from the paper's model to the recipe, those that have rows."""
    ((dataset, (horizon,)),) = LADDER.items()
    there = where(rows, dataset=dataset, horizon=horizon)
    steps = [
        (recipe, attention)
        for recipe in RECIPES
        if recipe.name.startswith("ladder_")
        for attention in recipe.attentions
    ]
    lines = []
    for recipe, attention in steps:
        plus = "" if recipe is steps[0][0] else "+ "
        lines += _step_line(f"{plus}{recipe.label}", where(there, recipe=recipe.name, attention=attention))
    if not lines:
        return
    lines += _step_line("+ the data set's own recipe", where(there, recipe=MAIN, attention="full", seed="1"))
    yield f"**From the paper's model to the recipe**, {TITLES[dataset]}-{horizon}: each row on the last, one seed"
    yield table(["lever", "attention", "MSE", "MAE", "validation MSE", "minutes"], lines)


def _step_line(label: str, rows: Rows) -> list[list[str]]:
    if not rows:
        return []
    numbers = [shown(rows, column) for column in ("test_mse", "test_mae", "validation_mse")]
    rounded = "" if unique(rows, "precision") == ["32-true"] else ", in bf16"
    return [[label + rounded, f"`{rows[0]['attention']}`", *numbers, f"{mean_of(rows, 'seconds') / 60:.1f}"]]
