"""Pages of the attention mechanisms, one each: equation, cost, options, docstring, and a map of the weights."""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

import torch
from equations import markdown_of

from forecast import attention
from forecast.attention._parsing import attention_arguments
from forecast.check.candidate import HEAD_DIM, Candidate
from forecast.check.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "reference/mechanisms"

STEPS = 96
"""Steps of the fixed window: four days of hours."""

DAY = 24

COST = re.compile(r"O\([^)]*\)")


@cache
def candidates() -> dict[str, Candidate]:
    """Return every mechanism of the folder with the arguments of its YAML file, by name."""
    return {name: Candidate(arguments) for name, arguments in attention_arguments(attention.available()).items()}


def path_of(name: str) -> str:
    """Return the page of a mechanism within the documentation."""
    return f"{FOLDER}/{name}.md"


def picture_of(name: str) -> str:
    """Return the picture of a mechanism within the documentation."""
    return f"{FOLDER}/{name}.png"


def overview(descriptions: Mapping[str, str]) -> Sequence[str]:
    """Return the parts of the page that lists all mechanisms; `descriptions` are those of the YAML files."""
    parts = [
        "# Attention mechanisms",
        "This page and those of the mechanisms are made from the files of `forecast/attention/` and `conf/attention/`.",
        "Costs are those of one head in a forward pass, in the length L of queries and keys. "
        "Memory is counted beside the inputs and the output.",
        _unbroken(markdown(list(candidates().values()))),
    ]
    for name, text in descriptions.items():
        parts += [f"## `{name}`", f"{text}. [Equation, options and map](mechanisms/{name}.md)"]
    return parts


def page(name: str, description: str, options: str) -> Sequence[str]:
    """Return the parts of a mechanism's page; `options` is the table of its YAML file, or empty."""
    candidate = candidates()[name]
    kind = candidate.kind
    equation = markdown_of(inspect.getdoc(kind) or "")
    return [
        f"# `{name}`",
        f"{description}.",
        f"```bash\npython train.py attention={name}\n```",
        *(["## Equation", equation] if equation else []),
        "## Cost",
        _unbroken(markdown([candidate])),
        *(["## Options", options] if options else []),
        "## Map",
        f"![Weights of {name} on the fixed window]({name}.png)",
        "Row: a query. Column: a key. Both are the same four days of hours, with one unusual hour on the third day. "
        "A weight of 1 is that of the plain mean. Parameters are those before training.",
        "## In detail",
        f"::: {kind.__module__}.{kind.__qualname__}\n"
        "    options: {show_root_heading: false, show_root_toc_entry: false, members: false, show_bases: false}",
    ]


def without_plain_equation(content: str) -> str:
    """Return the HTML of a mechanism's page without the equation of the docstring, which the page has as MathML."""
    return re.sub(r"<p>Equation: .*?</p>\n?", "", content, count=1, flags=re.DOTALL)


def window() -> torch.Tensor:
    """Return the tokens of the fixed window, shape (1, H, STEPS, HEAD_DIM), the same for both heads.

    They hold the time of day, half a day, a weekly trend, and the series: a daily wave with one unusual hour.
    """
    hour = torch.arange(STEPS, dtype=torch.float64)
    day = 2 * math.pi * hour / DAY
    series = day.sin() + 0.3 * (2 * day).cos()
    series[2 * DAY + 9] += 3
    waves = [day.sin(), day.cos(), (2 * day).sin(), (2 * day).cos()]
    tokens = torch.stack([*waves, series, series.diff(prepend=series[:1]), hour / STEPS, torch.ones_like(hour)], -1)
    assert tokens.shape[1] == HEAD_DIM
    return 1.5 * tokens.expand(1, 2, -1, -1)


def weights_of(name: str) -> dict[str, torch.Tensor]:
    """Return the map (STEPS, STEPS) of the first head, times STEPS, for each form that the mechanism has."""
    tokens, maps = window(), {}
    for causal in candidates()[name].forms:
        mechanism = candidates()[name].build(causal=causal, dtype=torch.float64)
        with torch.no_grad():
            maps["causal" if causal else "not causal"] = STEPS * mechanism.attention_map(tokens, tokens)[0, 0]
    return maps


def picture(name: str) -> bytes:
    """Return the maps of a mechanism as a PNG, all on the same scale of colours."""
    content = BytesIO()
    draw(weights_of(name)).savefig(content, format="png", dpi=90, metadata={"Software": None})
    return content.getvalue()


def draw(maps: Mapping[str, torch.Tensor]) -> "Figure":
    """Return a figure with a panel for each map."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(maps) + 0.8, 3.6), layout="constrained")
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    for panel, (title, weights) in zip(panels, maps.items(), strict=True):
        image = panel.imshow(weights.numpy(), cmap="RdBu_r", vmin=-5, vmax=5, interpolation="nearest")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("key, hour", fontsize=8)
        panel.set_ylabel("query, hour", fontsize=8)
        panel.set_xticks(range(0, STEPS, DAY))
        panel.set_yticks(range(0, STEPS, DAY))
        panel.tick_params(labelsize=7)
    bar = figure.colorbar(image, ax=panels.tolist(), extend="both", shrink=0.8)
    bar.set_label("weight / mean weight", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def _unbroken(text: str) -> str:
    """Return a table whose costs do not wrap."""
    return COST.sub(lambda cost: cost[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
