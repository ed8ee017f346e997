"""Attention where only looking into the context can help: mechanisms trained on generated series at equal steps.

`python -m benchmarks.studies.context --output benchmarks/records/context/losses.csv` trains what is missing. Each is
scored on the same series by the length of the look-back, with 95 % intervals over series. `curves.csv` beside it gets
the validation losses while they train, and `losses.png` shows both.
"""

import argparse
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt

from forecast.common.configuration import compose_words
from forecast.common.files import read_json, write_json
from forecast.common.spreadsheet import write_frame
from forecast.data.generated.windows import draw_pool
from forecast.evaluation.metrics import loss_by_name
from forecast.model.informer import Informer
from forecast.runs.results import commit, device_name
from forecast.runs.settings import Settings
from forecast.training.start_from import composed
from forecast.training.train import train

MECHANISMS = ("full", "probsparse", "linear", "mean")
LENGTHS = (32, 64, 128, 256, 512)
SERIES, FIRST, T, H = 2_000, 2**41, 512, 192
"""Scored series, the number of the first, and the lengths of a window."""

FOLDER, LOSSES = Path("outputs/context"), "losses.npy"

STEPS = 1_500
WORDS = (
    *(
        "experiment=pretrain",
        "data.series=20000",
        f"training.max_steps={STEPS}",
        "training.progress=false",
        "logger=csv",
    ),
    *("model.d_model=64", "model.num_heads=4", "model.d_ff=128", "model.encoder_layers=3", "model.decoder_layers=1"),
    *("training.validations_per_epoch=100", "cross_attention=${attention}"),
)


@torch.inference_mode()
def losses(network: Informer, values: torch.Tensor, length: int) -> torch.Tensor:
    """Return the quantile loss (S,) of each series (S, T + h) with the newest `length` steps of its look-back."""
    loss = loss_by_name("quantile", network.levels)
    found = []
    for part in values.split(250):
        past, future = part[:, :T, None], part[:, T:, None]
        observed = (torch.arange(T) >= T - length)[None, :, None].expand_as(past)
        known = past.new_empty(len(past), T, 0), past.new_empty(len(past), H, 0)
        quantiles = network.forward_quantiles(past, *known, observed)
        found += [loss(one[None], truth[None], None) for one, truth in zip(quantiles, future, strict=True)]
    return torch.stack(found)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean over series, by a bootstrap."""
    random = np.random.default_rng(0)
    means = [values[random.integers(len(values), size=len(values))].mean() for _ in range(1_000)]
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def curve(run: Path) -> pd.DataFrame:
    """Return the validation losses of a run by step."""
    scalars = pd.read_csv(run / "csv" / "version_0" / "metrics.csv")
    seen = scalars[["step", "val/quantile_loss"]].dropna().rename(columns={"val/quantile_loss": "loss"})
    return seen.assign(step=seen["step"] + 1)


def trained(name: str, values: torch.Tensor, place: Path) -> None:
    """Train a mechanism; write its loss (lengths, S) on each series, its curve and facts of the run into a folder."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        words = [*WORDS, f"attention={name}"]
        run, result = train(Settings.parse(composed(compose_words(words), words)), folder=Path(folder) / "run")
        network, seen = run.load_model(), curve(run.path)
    each = torch.stack([losses(network, values.view(SERIES, T + H), length) for length in LENGTHS])
    place.mkdir(parents=True, exist_ok=True)
    seen.to_csv(place / "curve.csv", index=False)
    facts = {"step_ms": result["speed"]["step_ms_p50"], "commit": commit()}
    write_json(place / "facts.json", facts | {"machine": device_name(torch.device("cpu"))})
    np.save(place / LOSSES, each.numpy())


def rows_of(folder: Path) -> pd.DataFrame:
    """Return a row for each mechanism and length: the loss, and its difference from full attention, with intervals."""
    full, rows = np.load(folder / MECHANISMS[0] / LOSSES), []
    for name in MECHANISMS:
        own, facts = np.load(folder / name / LOSSES), read_json(folder / name / "facts.json")
        for length, each, same in zip(LENGTHS, own, full, strict=True):
            (low, high), (least, most) = interval(each), interval(each - same)
            row = {"attention": name, "look_back": length, "loss": each.mean(), "low": low, "high": high}
            row |= {"from_full": (each - same).mean(), "from_full_low": least, "from_full_high": most}
            rows.append(row | {"steps": STEPS, "series": SERIES, "seed": 1} | facts)
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame, curves: pd.DataFrame, path: Path) -> None:
    """Draw the loss while the mechanisms train, and their distance from full attention by look-back."""
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for name, rows in curves.groupby("attention", sort=False):
            left.plot(rows["step"], rows["loss"], label=str(name))
        left.set_ylim(top=float(curves["loss"][curves["step"] > STEPS // 10].max()))
        left.set_xlabel("training steps")
        left.set_ylabel("quantile loss of validation")
        left.legend(frameon=False)
        for place, (_, rows) in enumerate(table.groupby("attention", sort=False)):
            share = 100 / table["loss"][: len(LENGTHS)].to_numpy()  # the loss of full attention
            middle = share * rows["from_full"]
            ends = [middle - share * rows["from_full_low"], share * rows["from_full_high"] - middle]
            right.errorbar(np.arange(len(rows)) + 0.06 * (place - 1.5), middle, yerr=ends, marker="o", capsize=2)
        right.set_xticks(range(len(LENGTHS)), [str(length) for length in LENGTHS])
        right.set_xlabel("steps of the look-back")
        right.set_ylabel("loss above that of full attention, %")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="what each mechanism reached (default: %(default)s)"
    )
    options = parser.parse_args()
    values = draw_pool(0, range(FIRST, FIRST + SERIES), T + H).values
    for name in MECHANISMS:
        if not (options.folder / name / LOSSES).is_file():
            trained(name, values, options.folder / name)
            print(name, flush=True)
    table = rows_of(options.folder)
    curves = pd.concat([pd.read_csv(options.folder / name / "curve.csv").assign(attention=name) for name in MECHANISMS])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for path, content in ((options.output, table), (options.output.with_name("curves.csv"), curves)):
        with path.open("wb") as file:
            write_frame(file, content.round(5), index=False)
    draw(table, curves, options.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
