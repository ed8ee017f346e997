"""The picture of a sweep: time and memory against length, one line a mechanism."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from forecast.attention._mechanisms import reference_label
from forecast.benchmark.summary import Sweep
from forecast.common.files import replacing

MARKERS = "osD^vP*X"


def draw_sweeps(path: Path, sweeps: Sequence[Sweep], title: str) -> None:
    """Write a PNG: a row a sweep, time on the left and peak memory on the right, the fused softmax bold."""
    figure = Figure(figsize=(11, 1.2 + 3.4 * len(sweeps)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(sweeps), 2, squeeze=False)
    for (left, right), sweep in zip(panels, sweeps, strict=True):
        _draw(left, sweep, "median_ms", 1.0, "median time, ms")
        _draw(right, sweep, "peak_bytes", 2.0**-20, "peak above the inputs, MiB")
    figure.legend(
        *panels[0][0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5, frameon=False
    )
    figure.suptitle(title, fontsize=10, parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110, metadata={"Software": None})


def _draw(panel: Axes, sweep: Sweep, key: str, unit: float, name: str) -> None:
    colours = colormaps["tab10"]
    for place, label in enumerate(sweep.labels):
        points = {length: value * unit for length, value in sweep.column(label, key).items()}
        fused = label == reference_label()
        panel.plot(
            list(points),
            list(points.values()),
            label=label,
            color="black" if fused else colours(place % 10),
            linewidth=3.0 if fused else 1.2,
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
        )
    panel.set_xscale("log", base=2)
    if any(map(len, (line.get_xdata() for line in panel.get_lines()))):  # type: ignore[arg-type]
        panel.set_yscale("log")
    else:
        panel.text(0.5, 0.5, "nothing was measured", ha="center", transform=panel.transAxes, fontsize=8)
    panel.set_xticks(sweep.lengths, [f"{length:,}" for length in sweep.lengths], fontsize=7, rotation=45)
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("tokens", fontsize=8)
    panel.set_ylabel(name, fontsize=8)
    panel.set_title(sweep.title, fontsize=9)
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25)
