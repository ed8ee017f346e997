"""The ladder from the paper's model to the data set's recipe, a lever or, at first, another model a row."""

from collections.abc import Iterator

from benchmarks.accuracy.main_table import TITLES
from benchmarks.accuracy.plan import LADDER, MAIN, RECIPES
from benchmarks.accuracy.scores import Scores, shown
from forecast.common.tables import table

EXACT = "32-true"
STEPS = [recipe for recipe in RECIPES if recipe.name.startswith("ladder_")]


def ladder_table(scores: Scores) -> Iterator[str]:
    """Yield the table of the steps that have rows, and of the recipe that they lead to; nothing without a step."""
    ((dataset, (horizon,)),) = LADDER.items()
    there = scores.where(dataset=dataset, horizon=horizon)
    rows = []
    for recipe in STEPS:
        plus = "" if recipe is STEPS[0] else "+ "
        for attention in recipe.attentions:
            rows += _row(f"{plus}{recipe.label}", there.where(recipe=recipe.name, attention=attention), attention)
    if not rows:
        return
    rows += _row("+ the data set's own recipe", there.where(recipe=MAIN, attention="full", seed="1"), "full")
    yield f"**From the paper's model to the recipe**, {TITLES[dataset]}-{horizon}: each row on the last, one seed"
    yield table(["lever", "attention", "MSE", "MAE", "validation MSE", "minutes"], rows)


def _row(label: str, scores: Scores, attention: str) -> list[list[str]]:
    if not scores.rows:
        return []
    numbers = [shown(scores.mean(column)) for column in ("test_mse", "test_mae", "validation_mse")]
    seconds = scores.mean("seconds")
    assert seconds is not None
    rounded = "" if scores.values("precision") == [EXACT] else ", in bf16"
    return [[label + rounded, f"`{attention}`", *numbers, f"{seconds.value / 60:.1f}"]]
