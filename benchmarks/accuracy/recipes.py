"""The runs of the record as plain data, and the command of each."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod

from forecast.attention import available

FOUR = (96, 192, 336, 720)
AS_PUBLISHED = "weather_as_published"
"""Weather as the published tables read it (`benchmarks.accuracy.regular`), with the recipe of `weather`."""

HOURLY: dict[str, tuple[int, ...]] = {"etth1": FOUR, "etth2": FOUR, "pjme": (96, 336)}
FINE: dict[str, tuple[int, ...]] = dict.fromkeys(("ettm1", "ettm2", "weather", AS_PUBLISHED), FOUR)
"""Steps of 10 or 15 minutes: many rows, so few mechanisms, and one seed but for `GPU_SEEDS`."""

HORIZONS = HOURLY | FINE
"""Horizons by data set; each data set has a recipe, `conf/experiment/<name>.yaml`."""

REGULAR_FILE = f"outputs/{AS_PUBLISHED}.csv"
STARTS = {AS_PUBLISHED: f"experiment=weather data=csv data.path={REGULAR_FILE} data.name={AS_PUBLISHED}"}
"""First overrides of data sets without a recipe of their own."""

FEW = ("full", "linear", "mean", "probsparse", "taylor")
"""Mechanisms at both end horizons of the data sets with many rows; between them `full` alone."""

ENDS = {name: (horizons[0], horizons[-1]) for name, horizons in HORIZONS.items()}
ETTH = {name: ENDS[name] for name in ("etth1", "etth2")}
FINE_ENDS = {name: ENDS[name] for name in FINE}
GPU_ENDS = {name: ENDS[name] for name in ("ettm1", "ettm2", AS_PUBLISHED)}
"""`full` where the other mechanisms ran on a GPU."""
FREE = {"etth2": (96,)}
LADDER = {"etth1": (96,)}
THREE = ("1", "2", "3")
GPU_SEEDS = {("ettm1", 96): THREE}
"""Seeds of the runs on a GPU, by data set and horizon; seed 1 alone for the others."""
TOKENS = {"etth1": (96,)}  # one token a step: the longest runs

MAIN, ENSEMBLE, EVERYWHERE, ON_GPU = "main", "ensemble", "mean_everywhere", "gpu"
POINTWISE_LABEL = "pointwise, look-back 336, without the linear path"


@dataclass(frozen=True)
class Recipe:
    """Runs that share their overrides of the command line.

    Parameters
    ----------
    name
        Entry of the record's column `recipe`.
    label
        Text in the tables.
    words
        Overrides beside those of the data set's recipe.
    start
        First overrides of the command.
    horizons
        By data set.
    attentions
        Mechanisms; those of `mechanisms` if empty.
    seeds
        By mechanism; seed 1 alone for the others. Data sets with many rows have `GPU_SEEDS` on a GPU.
    """

    name: str
    label: str
    words: tuple[str, ...] = ()
    start: str = "experiment={dataset}"
    horizons: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: HORIZONS)
    attentions: tuple[str, ...] = ()
    seeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def cells(self) -> "list[Cell]":
        """Return the cells of the record that belong to the recipe."""
        return [
            Cell(dataset, horizon, attention, seed, self.name)
            for dataset, horizons in self.horizons.items()
            for horizon in horizons
            for attention in self.attentions or mechanisms(dataset, horizon)
            for seed in self._seeds(dataset, horizon, attention)
        ]

    def _seeds(self, dataset: str, horizon: int, attention: str) -> tuple[str, ...]:
        if dataset in HOURLY:
            return self.seeds.get(attention, ("1",))
        on_processor = self.name == MAIN and attention == "full" and dataset in GPU_ENDS
        return ("1",) if on_processor else GPU_SEEDS.get((dataset, horizon), ("1",))


def mechanisms(dataset: str, horizon: int) -> tuple[str, ...]:
    """Return the mechanisms that are compared on a data set at a horizon."""
    if dataset in HOURLY:
        return tuple(available())
    return FEW if horizon in ENDS[dataset] else ("full",)


def _step(name: str, label: str, *words: str, start: str = "data={dataset}") -> Recipe:
    """Return one step from the paper's model to the data set's recipe."""
    return Recipe(f"ladder_{name}", label, words, start, LADDER, ("full",))


CROSS = "attention@cross_attention=mean"
ALONE = "model.linear_path=false"
FITTED = (ALONE, "training.max_epochs=6")
"""Without the linear path: the best of six choices of width, dropout and passes, by validation
(benchmarks/records/search/etth2-alone.csv)."""
POINTWISE = "data={dataset} experiment=pointwise"
PAPER = "data={dataset} experiment=informer"
PATCHES = ("context_length=96", "model.queries=learned", "model.level=window", "loss=mse", ALONE)
MEAN = ("mean",)

RECIPES: tuple[Recipe, ...] = (
    Recipe(MAIN, "the data set's recipe", seeds={"full": THREE}),
    Recipe(EVERYWHERE, "mean in cross-attention too", (CROSS,), horizons=HOURLY | FINE_ENDS, attentions=MEAN),
    Recipe(ON_GPU, "on a GPU", ("trainer=gpu",), horizons=GPU_ENDS, attentions=("full",)),
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
    _step("calendar", "only calendar cycles that the training split contains twice", "data.calendar=null", start=PAPER),
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
    _step("channels", "independent channels", *PATCHES),
    _step("look_back", "look-back 512", *PATCHES[1:]),
    _step("queries", "queries that carry the last patch", *PATCHES[2:]),
    _step("level", "windows relative to their last patch, not to their mean", *PATCHES[3:]),
    _step("linear_path", "a linear path, added, that starts in closed form", "loss=mse", "model.linear_path=ridge"),
    _step("weighted", "the weighted mean of both instead of the sum", "loss=mse"),
    _step("mae", "MAE as the loss: the defaults"),
    Recipe(
        ENSEMBLE,
        "the forecasts of three seeds averaged",
        horizons=HOURLY,
        attentions=("full",),
        seeds={"full": ("1+2+3",)},
    ),
)
"""All recipes, in the order of the tables."""

BY_NAME = {recipe.name: recipe for recipe in RECIPES}


Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Cell:
    """A row of the record, present or missing; `seed` has the form 1+2+3 where several runs are averaged."""

    dataset: str
    horizon: int
    attention: str
    seed: str
    recipe: str

    @property
    def key(self) -> Key:
        """The columns that identify the row, as text."""
        return self.dataset, str(self.horizon), self.attention, self.seed, self.recipe

    @property
    def name(self) -> str:
        """The same in words."""
        return f"{self.dataset}-{self.horizon} {self.attention}, seed {self.seed}, {self.recipe}"

    @property
    def members(self) -> "list[Cell]":
        """The runs that are averaged; empty for a single run."""
        seeds = self.seed.split("+")
        return [replace(self, seed=seed, recipe=MAIN) for seed in seeds] if self.recipe == ENSEMBLE else []

    @property
    def words(self) -> list[str]:
        """The overrides of the training."""
        recipe = BY_NAME[self.recipe]
        own = [f"horizon={self.horizon}", f"attention={self.attention}", f"seed={self.seed}"]
        return [*_start(recipe, self.dataset), *own, *recipe.words]

    @property
    def command(self) -> str:
        """The command that makes the row."""
        if not self.members:
            return shlex.join(["python", "train.py", *self.words])
        at = f"--dataset {self.dataset} --horizon {self.horizon} --attention {self.attention}"
        return f"python -m benchmarks.accuracy --recipe {self.recipe} {at}"

    @property
    def turn(self) -> int:
        """Its position by kind: first `full` with one seed, then the others at both end horizons, then the rest."""
        if self.recipe not in (MAIN, EVERYWHERE):
            return 5 if self.members else 4
        if self.attention == "full":
            return 0 if self.seed == "1" else 2
        return 1 if self.horizon in ENDS[self.dataset] else 3


def _start(recipe: Recipe, dataset: str) -> list[str]:
    return STARTS.get(dataset, recipe.start.format(dataset=dataset)).split()


def all_cells() -> list[Cell]:
    """Return every cell of the record, in the order in which they are run."""
    return sorted((cell for recipe in RECIPES for cell in recipe.cells()), key=lambda cell: cell.turn)


def sweeps(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Yield groups of cells, in order; one sweep runs each group.

    A group has one recipe, one data set, and every combination of its horizons, mechanisms and seeds.
    """
    for _, of_recipe in groupby(cells, lambda cell: (cell.turn, cell.recipe, cell.dataset)):
        group = list(of_recipe)
        if len(group) == prod(len(set(values)) for values in zip(*(cell.key[1:4] for cell in group), strict=True)):
            yield group
        else:
            group.sort(key=lambda cell: (cell.horizon, cell.seed))
            yield from (list(part) for _, part in groupby(group, lambda cell: (cell.horizon, cell.seed)))


def sweep_name(group: list[Cell]) -> str:
    """Return the name of a group's sweep; an average uses the runs of MAIN."""
    return f"{MAIN if group[0].members else group[0].recipe}_{group[0].dataset}"


def sweep_words(group: list[Cell]) -> list[str]:
    """Return the overrides of the sweep; a single value is a choice of one, so that it is in the job's name."""
    cells = [member for cell in group for member in cell.members] or group
    recipe = BY_NAME[cells[0].recipe]
    words = []
    for name in ("horizon", "attention", "seed"):
        values = list(dict.fromkeys(str(getattr(cell, name)) for cell in cells))
        words.append(f"{name}={','.join(values)}" if len(values) > 1 else f"{name}=choice({values[0]})")
    return [*_start(recipe, cells[0].dataset), *words, *recipe.words, f"sweep.name={sweep_name(group)}"]
