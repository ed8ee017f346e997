"""The table of attention's share: the same runs without the linear path, pointwise, and with the mean in its place."""

from collections.abc import Iterator

from benchmarks.accuracy.main_table import TITLES, ordered
from benchmarks.accuracy.plan import EVERYWHERE, HORIZONS, MAIN, RECIPES
from benchmarks.accuracy.scores import NONE, Scores, shown
from forecast.common.tables import table

VARIANTS = (MAIN, "no_linear_path", "no_linear_path_fitted", "pointwise")


def share_table(scores: Scores) -> Iterator[str]:
    """Yield the table over the data sets and horizons that have a variant's row; nothing where there is none."""
    places = [
        (dataset, horizon)
        for dataset, horizons in HORIZONS.items()
        for horizon in horizons
        if any(_rows(scores, dataset, horizon, variant) for variant in VARIANTS[1:])
    ]
    lines = [
        (dataset, horizon, variant)
        for dataset, horizon in places
        for variant in VARIANTS
        if _rows(scores, dataset, horizon, variant)
    ]
    if not lines:
        return
    found = Scores(row for line in lines for row in _rows(scores, *line))
    attentions = ordered(found.values("attention"))
    yield "**Attention's share**: MSE of the same runs with another mechanism in self-attention, or the mean everywhere"
    headings = ["run", *(f"`{name}`" for name in attentions), "`mean` everywhere"]
    yield table(headings, [_line(scores, *line, attentions) for line in lines])


def _line(scores: Scores, dataset: str, horizon: int, variant: str, attentions: list[str]) -> list[str]:
    own = scores.where(dataset=dataset, horizon=horizon, recipe=variant)
    cells = [shown(own.where(attention=name).mean("test_mse")) for name in attentions]
    everywhere = scores.where(dataset=dataset, horizon=horizon, recipe=_everywhere(variant))
    label = next(recipe.label for recipe in RECIPES if recipe.name == variant)
    return [f"{TITLES[dataset]}-{horizon}, {label}", *cells, shown(everywhere.mean("test_mse")) or NONE]


def _rows(scores: Scores, dataset: str, horizon: int, variant: str) -> list[dict[str, str]]:
    return scores.where(dataset=dataset, horizon=horizon, recipe=variant).rows


def _everywhere(variant: str) -> str:
    return EVERYWHERE if variant == MAIN else f"{variant}_{EVERYWHERE}"
