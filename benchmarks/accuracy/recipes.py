"""The runs that the record is made of, as plain data, and the command of each."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod

from forecast.attention import available

HORIZONS: dict[str, tuple[int, ...]] = {
    "etth1": (96, 192, 336, 720),
    "etth2": (96, 192, 336, 720),
    "pjme": (96, 336),
}
"""The data sets, each with its recipe `conf/experiment/<name>.yaml`, and their horizons."""

ENDS = {name: (horizons[0], horizons[-1]) for name, horizons in HORIZONS.items()}
ETTH = {name: ENDS[name] for name in ("etth1", "etth2")}
FREE = {"etth2": (96,)}
LADDER = {"etth1": (96,)}
TOKENS = {"etth1": (96,)}  # where every step is a token: the longest runs of all

MAIN, ENSEMBLE, EVERYWHERE = "main", "ensemble", "mean_everywhere"
POINTWISE_LABEL = "pointwise, look-back 336, without the linear path"


@dataclass(frozen=True)
class Recipe:
    """Runs that the same words of the command line make.

    Parameters
    ----------
    name
        Entry of the record's column `recipe`.
    label
        Words of the tables.
    words
        Overrides that set these runs apart from those of the data set's own recipe.
    start
        First words of the command.
    horizons
        By data set.
    attentions
        Mechanisms; all that there are if none is named.
    seeds
        By mechanism; seed 1 alone for the others.
    """

    name: str
    label: str
    words: tuple[str, ...] = ()
    start: str = "experiment={dataset}"
    horizons: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: HORIZONS)
    attentions: tuple[str, ...] = ()
    seeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def cells(self) -> "list[Cell]":
        """Return the rows of the record that the recipe makes."""
        return [
            Cell(dataset, horizon, attention, seed, self.name)
            for dataset, horizons in self.horizons.items()
            for horizon in horizons
            for attention in self.attentions or available()
            for seed in self.seeds.get(attention, ("1",))
        ]


def _step(name: str, label: str, *words: str, start: str = "data={dataset}") -> Recipe:
    """Return a step of the ladder from the paper's model to the data set's recipe."""
    return Recipe(f"ladder_{name}", label, words, start, LADDER, ("full",))


CROSS = "attention@cross_attention=mean"
ALONE = "model.linear_path=false"
FITTED = (ALONE, "training.max_epochs=6")
"""Without the linear path: the best on validation of six choices of width, dropout and passes
(benchmarks/records/search/etth2-alone.csv)."""
POINTWISE = "data={dataset} experiment=pointwise"
PAPER = "data={dataset} experiment=informer"
PATCHES = ("context_length=96", "model.queries=learned", "model.level=window", "loss=mse", ALONE)
MEAN = ("mean",)

RECIPES: tuple[Recipe, ...] = (
    Recipe(MAIN, "the data set's recipe", seeds={"full": ("1", "2", "3")}),
    Recipe(EVERYWHERE, "mean in cross-attention too", (CROSS,), attentions=MEAN),
    Recipe("no_linear_path", "without the linear path", (ALONE,), horizons=ETTH),
    Recipe(f"no_linear_path_{EVERYWHERE}", "without the linear path", (ALONE, CROSS), horizons=ETTH, attentions=MEAN),
    Recipe("no_linear_path_fitted", "without it, six passes", FITTED, horizons=FREE, attentions=("full", "linear")),
    Recipe("pointwise", POINTWISE_LABEL, start=POINTWISE, horizons=TOKENS),
    Recipe(f"pointwise_{EVERYWHERE}", POINTWISE_LABEL, (CROSS,), POINTWISE, TOKENS, MEAN),
    Recipe(
        "ladder_informer",
        "`model=informer`: the paper's model, calendar, rate and schedule, look-back 96, at most six passes",
        start=PAPER,
        horizons=LADDER,
        attentions=("full", "probsparse"),
    ),
    _step("calendar", "of the calendar only what the training part holds twice", "data.calendar=null", start=PAPER),
    _step(
        "one_cycle",
        "a one-cycle rate, weight decay, four passes",
        *("model=informer", "context_length=96", "loss=mse", "optimizer.lr=1e-4"),
        *("training.max_epochs=4", "training.batch_size=32", "training.validations_per_epoch=1"),
    ),
    _step(
        "patches",
        "patches, window normalisation, horizon queries, all channels together; three passes at the default's rate",
        *PATCHES,
        "model.channels=mixed",
    ),
    _step("channels", "each channel by itself", *PATCHES),
    _step("look_back", "look-back 512", *PATCHES[1:]),
    _step("queries", "queries that carry the last patch", *PATCHES[2:]),
    _step("level", "windows counted from their last patch, not from their mean", *PATCHES[3:]),
    _step("linear_path", "the linear path added, from the closed form", "loss=mse", "model.linear_path=ridge"),
    _step("weighted", "their weighted mean in place of the sum", "loss=mse"),
    _step("mae", "MAE for the loss: the defaults"),
    Recipe(ENSEMBLE, "the forecasts of three seeds averaged", attentions=("full",), seeds={"full": ("1+2+3",)}),
)
"""In the order in which the tables have them."""

BY_NAME = {recipe.name: recipe for recipe in RECIPES}


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
        recipe = BY_NAME[self.recipe]
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
    return sorted((cell for recipe in RECIPES for cell in recipe.cells()), key=lambda cell: cell.turn)


def sweeps(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Yield the cells in groups that one sweep makes each, in their order.

    A group has one recipe and one data set, and every combination of its horizons, mechanisms and seeds.
    """
    for _, of_recipe in groupby(cells, lambda cell: (cell.turn, cell.recipe, cell.dataset)):
        group = list(of_recipe)
        if len(group) == prod(len(set(values)) for values in zip(*(cell.key[1:4] for cell in group), strict=True)):
            yield group
        else:
            group.sort(key=lambda cell: (cell.horizon, cell.seed))
            yield from (list(part) for _, part in groupby(group, lambda cell: (cell.horizon, cell.seed)))


def sweep_name(group: list[Cell]) -> str:
    """Return the name of the sweep that makes a group; an average is made of runs of MAIN."""
    return f"{MAIN if group[0].members else group[0].recipe}_{group[0].dataset}"


def sweep_words(group: list[Cell]) -> list[str]:
    """Return the words of the sweep; a single value is a choice of one, so that the job's name has it."""
    cells = [member for cell in group for member in cell.members] or group
    recipe = BY_NAME[cells[0].recipe]
    words = []
    for name in ("horizon", "attention", "seed"):
        values = list(dict.fromkeys(str(getattr(cell, name)) for cell in cells))
        words.append(f"{name}={','.join(values)}" if len(values) > 1 else f"{name}=choice({values[0]})")
    start = recipe.start.format(dataset=cells[0].dataset).split()
    return [*start, *words, *recipe.words, f"sweep.name={sweep_name(group)}"]
