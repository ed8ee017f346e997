"""One run of the record: what it is called, the command that makes it, and when its turn is."""

import shlex
from dataclasses import dataclass, replace
from functools import cache

from benchmarks.accuracy.plan import ENDS, ENSEMBLE, EVERYWHERE, MAIN, RECIPES, Recipe
from forecast.attention import available

Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Cell:
    """A row that the record has, or is to have; `seed` is of the form 1+2+3 where several runs are averaged."""

    dataset: str
    horizon: int
    attention: str
    seed: str
    recipe: str

    @property
    def key(self) -> Key:
        """Return what tells the row from all others, as the record's text."""
        return self.dataset, str(self.horizon), self.attention, self.seed, self.recipe

    @property
    def name(self) -> str:
        """Return the same in words."""
        return f"{self.dataset}-{self.horizon} {self.attention}, seed {self.seed}, {self.recipe}"

    @property
    def members(self) -> "list[Cell]":
        """Return the runs that are averaged; none where this is a run by itself."""
        seeds = self.seed.split("+")
        return [replace(self, seed=seed, recipe=MAIN) for seed in seeds] if self.recipe == ENSEMBLE else []

    @property
    def words(self) -> list[str]:
        """Return the words of the command line that trains it."""
        recipe = _recipes()[self.recipe]
        own = [f"horizon={self.horizon}", f"attention={self.attention}", f"seed={self.seed}"]
        return [*recipe.start.format(dataset=self.dataset).split(), *own, *recipe.words]

    @property
    def command(self) -> str:
        """Return the command that makes the row."""
        if not self.members:
            return shlex.join(["python", "train.py", *self.words])
        at = f"--dataset {self.dataset} --horizon {self.horizon} --attention {self.attention}"
        return f"python -m benchmarks.accuracy --recipe {self.recipe} {at}"

    @property
    def turn(self) -> int:
        """Return the place of its kind: `full` once everywhere, the others at both ends, then the rest."""
        if self.recipe not in (MAIN, EVERYWHERE):
            return 5 if self.members else 4
        if self.attention == "full":
            return 0 if self.seed == "1" else 2
        return 1 if self.horizon in ENDS[self.dataset] else 3


def all_cells() -> list[Cell]:
    """Return every row that the record is to have, in the order in which they are made."""
    return sorted((cell for recipe in RECIPES for cell in _cells(recipe)), key=lambda cell: cell.turn)


def _cells(recipe: Recipe) -> list[Cell]:
    return [
        Cell(dataset, horizon, attention, seed, recipe.name)
        for dataset, horizons in recipe.horizons.items()
        for horizon in horizons
        for attention in recipe.attentions or available()
        for seed in recipe.seeds.get(attention, ("1",))
    ]


@cache
def _recipes() -> dict[str, Recipe]:
    return {recipe.name: recipe for recipe in RECIPES}
