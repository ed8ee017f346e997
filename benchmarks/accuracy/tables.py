"""The record as Markdown: the tables of `docs/measurements/results.md`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.accuracy.recipes import (
    AS_PUBLISHED,
    BY_NAME,
    ENSEMBLE,
    ETTH,
    EVERYWHERE,
    HORIZONS,
    LADDER,
    MAIN,
    ON_GPU,
    RECIPES,
)
from benchmarks.accuracy.record import Record
from forecast.common.errors import InputError
from forecast.common.tables import table, write_between
from forecast.evaluation.metrics import ROUNDING

EMPTY = "No run has been recorded yet."
TITLES = {"etth1": "ETTh1", "etth2": "ETTh2", "pjme": "PJM East", "ettm1": "ETTm1", "ettm2": "ETTm2"}
TITLES |= {"weather": "Weather", AS_PUBLISHED: "Weather as the published tables read it"}

PUBLISHED: Mapping[str, Mapping[int, tuple[float, str]]] = {
    "etth1": {96: (0.351, "SegRNN"), 192: (0.390, "SegRNN"), 336: (0.414, "DUET"), 720: (0.426, "SRSNet")},
    "etth2": {96: (0.270, "DUET"), 192: (0.324, "SRSNet"), 336: (0.349, "SRSNet"), 720: (0.378, "FITS")},
    "ettm1": {96: (0.279, "DUET"), 192: (0.320, "DUET"), 336: (0.348, "DUET"), 720: (0.405, "DUET")},
    "ettm2": {96: (0.157, "xPatch"), 192: (0.214, "DUET"), 336: (0.267, "DUET"), 720: (0.348, "DUET")},
    AS_PUBLISHED: {96: (0.141, "SegRNN"), 192: (0.185, "SegRNN"), 336: (0.234, "DUET"), 720: (0.305, "DUET")},
}
"""By data set and horizon: the lowest published test MSE on z-scores, and the name of its model.

The numbers come from the projects' own tables: SegRNN (in the README of SparseTSF), DUET, SRSNet, FITS, xPatch. Each
chose its look-back and scored every test window; of xPatch this is the table without dropped windows.
"""

Rows = Sequence[Record]


def write_tables(path: Path, rows: Rows) -> None:
    """Write the tables between the marks of a Markdown file; raise InputError if it has none."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if BEGIN not in path.read_text(encoding="utf-8"):
        raise InputError(f"{path}: has no place for the tables: add the lines {BEGIN} and {END}")
    write_between(path, BEGIN, END, tables(rows))


def tables(rows: Rows) -> str:
    """Return all tables that have rows, as Markdown."""
    return "\n\n".join([*main_tables(rows), *share_table(rows), *ladder_table(rows)]) or EMPTY


def where(rows: Rows, **wanted: str | int) -> list[Record]:
    """Return the rows with these values in these columns."""
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def unique(rows: Rows, column: str) -> list[str]:
    """Return the different values of a column."""
    return list(dict.fromkeys(row[column] for row in rows))


def ordered(attentions: list[str]) -> list[str]:
    """Return mechanisms in the order of the tables: `full` first, the control last."""
    return sorted(attentions, key=lambda name: (name != "full", name == "mean", name))


def mean_of(rows: Rows, column: str) -> float:
    """Return the mean of a column."""
    return fmean(float(row[column]) for row in rows)


def shown(rows: Rows, column: str = "test_mse") -> str:
    """Return a column's mean, with the standard deviation over several seeds; an empty text without rows."""
    values = [float(row[column]) for row in rows]
    spread = f" ± {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}" if values else ""


def main_tables(rows: Rows) -> Iterator[str]:
    """Yield a table for each data set with rows, and a sentence that compares `full` with the ridge."""
    main = where(rows, recipe=MAIN)
    for dataset in (name for name in HORIZONS if name in unique(main, "dataset")):
        yield _title(where(main, dataset=dataset), dataset)
        yield _table(where(rows, dataset=dataset), dataset)
    cells = [where(main, dataset=dataset, horizon=horizon) for dataset in ETTH for horizon in HORIZONS[dataset]]
    if cells := [cell for cell in cells if where(cell, attention="full")]:
        mse, mae = (_against_ridge(cells, score) for score in ("mse", "mae"))
        yield f"`full` and the ridge over {len(cells)} cells of ETTh1 and ETTh2: mean {mse}. Mean {mae}."


def _title(main: Rows, dataset: str) -> str:
    look_backs = ", ".join(f"{int(length):,}" for length in unique(main, "context_length"))
    windows = [count for horizon in HORIZONS[dataset] for count in unique(where(main, horizon=horizon), "windows")]
    counts = " / ".join(f"{int(count):,}" for count in windows)
    return f"**{TITLES[dataset]}**, look-back {look_backs}, all {counts} test windows, MSE / MAE on z-scores:"


def _table(rows: Rows, dataset: str) -> str:
    horizons = HORIZONS[dataset]
    cells = [where(rows, horizon=horizon) for horizon in horizons]
    lines = [_line("linear (ridge)", [_ridge(cell) for cell in cells], "linear")]
    for attention in ordered(unique(where(rows, recipe=MAIN), "attention")):
        label = f"`{attention}`" + (", the control" if attention == "mean" else "")
        lines.append(_line(label, [where(cell, attention=attention, recipe=MAIN) for cell in cells]))
        if attention == "full":
            averages = [where(cell, attention=attention, recipe=ENSEMBLE) for cell in cells]
            lines.append(_line("`full`, forecasts of three seeds averaged", averages))
            on_gpu = [where(cell, attention=attention, recipe=ON_GPU) for cell in cells]
            lines.append(_line("`full` on a GPU, as the others", on_gpu))
    lines.append(_line("`mean` everywhere", [where(cell, attention="mean", recipe=EVERYWHERE) for cell in cells]))
    lines = [line for line in lines if any(line[1:])]
    if dataset in PUBLISHED:
        best = [PUBLISHED[dataset][horizon] for horizon in horizons]
        mean = f"{fmean(value for value, _ in best):.3f}"
        lines.append(["best published, not run here", *(f"{value:.3f} ({name})" for value, name in best), mean, ""])
    return table(["forecast", *map(str, horizons), "mean", "machine"], lines)


def _line(label: str, cells: list[list[Record]], forecaster: str = "test") -> list[str]:
    """Return a line; it ends with the mean over the horizons, if each of them has a run, and the machines."""
    columns = [f"{forecaster}_{score}" for score in ("mse", "mae")]
    texts = []
    for rows in cells:
        pair = " / ".join(shown(rows, column) for column in columns)
        texts.append("" if not rows else pair + (f" ({len(rows)})" if len(rows) > 1 else ""))
    means = [fmean(mean_of(rows, column) for rows in cells) for column in columns] if all(cells) else []
    mean = " / ".join(f"{mean:.3f}" for mean in means)
    return [label, *texts, mean, machines([row for rows in cells for row in rows])]


def machines(rows: Rows) -> str:
    """Return the processors of the rows, without trade marks, threads and memory sizes."""
    names = [re.sub(r"\(R\)| Processor.*|, \d+ threads| \d+GB.*", "", name) for name in unique(rows, "machine")]
    return ", ".join(dict.fromkeys(names))


def _ridge(rows: Rows) -> list[Record]:
    """Return the row that supplies the ridge score: `full` if present, else the first."""
    main = where(rows, recipe=MAIN)
    return [*where(main, attention="full"), *main][:1]


def _against_ridge(cells: list[list[Record]], score: str) -> str:
    full = [mean_of(where(cell, attention="full"), f"test_{score}") for cell in cells]
    ridge = [mean_of(_ridge(cell), f"linear_{score}") for cell in cells]
    lower = sum(model < linear * (1 - ROUNDING) for model, linear in zip(full, ridge, strict=True))
    return f"{score.upper()} {fmean(full):.4f} and {fmean(ridge):.4f}, `full` lower in {lower}"


VARIANTS = (MAIN, "no_linear_path", "no_linear_path_fitted", "pointwise")


def share_table(rows: Rows) -> Iterator[str]:
    """Yield the table of what self-attention contributes, for the data sets and horizons with another variant."""
    lines = []
    for dataset, horizons in HORIZONS.items():
        for cell in (where(rows, dataset=dataset, horizon=horizon) for horizon in horizons):
            variants = [variant for variant in VARIANTS if where(cell, recipe=variant)]
            lines += [(cell, variant) for variant in variants if variants != [MAIN]]
    if not lines:
        return
    attentions = ordered(unique([row for cell, variant in lines for row in where(cell, recipe=variant)], "attention"))
    yield "**Another self-attention in the same runs, or the mean everywhere**, MSE:"
    headings = ["run", *(f"`{name}`" for name in attentions), "`mean` everywhere"]
    yield table(headings, [_share_line(cell, variant, attentions) for cell, variant in lines])


def _share_line(cell: Rows, variant: str, attentions: list[str]) -> list[str]:
    everywhere = EVERYWHERE if variant == MAIN else f"{variant}_{EVERYWHERE}"
    label = f"{TITLES[cell[0]['dataset']]}-{cell[0]['horizon']}, {BY_NAME[variant].label}"
    scores = [shown(where(cell, recipe=variant, attention=name)) for name in attentions]
    return [label, *scores, shown(where(cell, recipe=everywhere))]


def ladder_table(rows: Rows) -> Iterator[str]:
    """Yield the table of the steps from the paper's model to the recipe, as far as they have rows."""
    ((dataset, (horizon,)),) = LADDER.items()
    runs = where(rows, dataset=dataset, horizon=horizon)
    steps = [
        (recipe, attention)
        for recipe in RECIPES
        if recipe.name.startswith("ladder_")
        for attention in recipe.attentions
    ]
    lines = []
    for recipe, attention in steps:
        plus = "" if recipe is steps[0][0] else "+ "
        lines += _step_line(f"{plus}{recipe.label}", where(runs, recipe=recipe.name, attention=attention))
    if not lines:
        return
    lines += _step_line("+ the data set's own recipe", where(runs, recipe=MAIN, attention="full", seed="1"))
    yield f"**From the paper's model to the recipe**, {TITLES[dataset]}-{horizon}, each row on the last, one seed:"
    yield table(["change", "attention", "MSE", "MAE", "validation MSE", "minutes", "machine"], lines)


def _step_line(label: str, rows: Rows) -> list[list[str]]:
    if not rows:
        return []
    numbers = [shown(rows, column) for column in ("test_mse", "test_mae", "validation_mse")]
    rounded = "" if unique(rows, "precision") == ["32-true"] else ", in bf16"
    minutes = f"{mean_of(rows, 'seconds') / 60:.1f}"
    return [[label + rounded, f"`{rows[0]['attention']}`", *numbers, minutes, machines(rows)]]


BEGIN = "<!-- results: written by python -m benchmarks.accuracy --write docs/measurements/results.md -->"
END = "<!-- /results -->"
