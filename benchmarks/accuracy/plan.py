"""Which runs the record is made of: plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

HORIZONS: Mapping[str, tuple[int, ...]] = {
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


@dataclass(frozen=True)
class Recipe:
    """Runs that the same words of the command line make.

    Parameters
    ----------
    name
        What column `recipe` of the record says.
    label
        What the tables say.
    words
        Overrides that make these runs other than those of the data set's own recipe.
    start
        What the command begins with.
    horizons
        By data set.
    attentions
        Mechanisms; none named: every one that there is.
    seeds
        By mechanism; 1 where nothing is said.
    """

    name: str
    label: str
    words: tuple[str, ...] = ()
    start: str = "experiment={dataset}"
    horizons: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: HORIZONS)
    attentions: tuple[str, ...] = ()
    seeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


CROSS = "attention@cross_attention=mean"
ALONE = "model.linear_path=false"
FITTED = (ALONE, "training.max_epochs=6")
"""Without the linear path a network that has to do all by itself: what validation liked best there, of six choices of
width, dropout and passes (benchmarks/search/etth2-alone.csv)."""
POINTWISE = "data={dataset} experiment=pointwise"
PAPER = "data={dataset} experiment=informer"
PATCHES = ("context_length=96", "model.queries=learned", "model.level=window", "loss=mse", ALONE)

RECIPES: tuple[Recipe, ...] = (
    Recipe(MAIN, "the data set's recipe", seeds={"full": ("1", "2", "3")}),
    Recipe(EVERYWHERE, "mean in cross-attention too", (CROSS,), attentions=("mean",)),
    Recipe("no_linear_path", "without the linear path", (ALONE,), horizons=ETTH),
    Recipe(
        f"no_linear_path_{EVERYWHERE}",
        "without the linear path",
        (ALONE, CROSS),
        horizons=ETTH,
        attentions=("mean",),
    ),
    Recipe(
        "no_linear_path_fitted",
        "without it, six passes",
        FITTED,
        horizons=FREE,
        attentions=("full", "linear"),
    ),
    Recipe("pointwise", "pointwise, look-back 336, without the linear path", start=POINTWISE, horizons=TOKENS),
    Recipe(
        f"pointwise_{EVERYWHERE}",
        "pointwise, look-back 336, without the linear path",
        (CROSS,),
        start=POINTWISE,
        horizons=TOKENS,
        attentions=("mean",),
    ),
    Recipe(
        "ladder_informer",
        "`model=informer`: the paper's model, calendar, rate and schedule, look-back 96, at most six passes",
        start=PAPER,
        horizons=LADDER,
        attentions=("full", "probsparse"),
    ),
    Recipe(
        "ladder_calendar",
        "of the calendar only what the training part holds twice",
        ("data.calendar=null",),
        PAPER,
        LADDER,
        ("full",),
    ),
    Recipe(
        "ladder_one_cycle",
        "a one-cycle rate, weight decay, four passes",
        (
            *("model=informer", "context_length=96", "loss=mse", "optimizer.lr=1e-4"),
            *("training.max_epochs=4", "training.batch_size=32", "training.validations_per_epoch=1"),
        ),
        start="data={dataset}",
        horizons=LADDER,
        attentions=("full",),
    ),
    Recipe(
        "ladder_patches",
        "patches, window normalisation, horizon queries, all channels together; three passes at the default's rate",
        (*PATCHES, "model.channels=mixed"),
        start="data={dataset}",
        horizons=LADDER,
        attentions=("full",),
    ),
    Recipe("ladder_channels", "each channel by itself", PATCHES, "data={dataset}", LADDER, ("full",)),
    Recipe("ladder_look_back", "look-back 512", PATCHES[1:], "data={dataset}", LADDER, ("full",)),
    Recipe("ladder_queries", "queries that carry the last patch", PATCHES[2:], "data={dataset}", LADDER, ("full",)),
    Recipe(
        "ladder_level",
        "windows counted from their last patch, not from their mean",
        PATCHES[3:],
        "data={dataset}",
        LADDER,
        ("full",),
    ),
    Recipe(
        "ladder_linear_path",
        "the linear path added, from the closed form",
        (*PATCHES[3:4], "model.linear_path=ridge"),
        "data={dataset}",
        LADDER,
        ("full",),
    ),
    Recipe(
        "ladder_weighted", "their weighted mean in place of the sum", PATCHES[3:4], "data={dataset}", LADDER, ("full",)
    ),
    Recipe("ladder_mae", "MAE for the loss: the defaults", (), "data={dataset}", LADDER, ("full",)),
    Recipe(ENSEMBLE, "the forecasts of three seeds averaged", attentions=("full",), seeds={"full": ("1+2+3",)}),
)
"""In the order in which the tables have them."""
