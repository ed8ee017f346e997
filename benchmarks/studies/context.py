"""Attention where only looking into the context can help: mechanisms trained on generated series at equal steps.

`python -m benchmarks.studies.context --output benchmarks/records/context/losses.csv` trains what is missing, and scores
each mechanism on the same series by the length of the look-back, with 95 % intervals over series. `curves.csv` beside
it gets the validation losses while they train, and `losses.png` shows both.
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


def curve(run: Path, name: str) -> pd.DataFrame:
    """Return the validation losses of a run by step."""
    scalars = pd.read_csv(run / "csv" / "version_0" / "metrics.csv")
    seen = scalars[["step", "val/quantile_loss"]].dropna().rename(columns={"val/quantile_loss": "loss"})
    return seen.assign(attention=name, step=seen["step"] + 1)


def draw(table: pd.DataFrame, curves: pd.DataFrame, path: Path) -> None:
    """Draw the loss while the mechanisms train, and their loss by the length of the look-back."""
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, axes) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for name, rows in curves.groupby("attention", sort=False):
            left.plot(rows["step"], rows["loss"], label=str(name))
        left.set_ylim(top=float(curves["loss"][curves["step"] > STEPS // 10].max()))
        left.set_xlabel("training steps")
        left.set_ylabel("quantile loss of validation")
        for place, (name, rows) in enumerate(table.groupby("attention", sort=False)):
            x = np.arange(len(rows)) + 0.06 * (place - 1.5)
            errors = [rows["loss"] - rows["low"], rows["high"] - rows["loss"]]
            axes.errorbar(x, rows["loss"], yerr=errors, label=str(name), marker="o", capsize=2)
        axes.set_xticks(range(len(LENGTHS)), [str(length) for length in LENGTHS])
        axes.set_xlabel("steps of the look-back")
        axes.set_ylabel("quantile loss")
        axes.legend(frameon=False)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    output: Path = parser.parse_args().output
    rows: list[dict[str, object]] = [
        {str(name): value for name, value in row.items()}
        for row in (pd.read_csv(output).to_dict("records") if output.is_file() else [])
    ]
    values = draw_pool(0, range(FIRST, FIRST + SERIES), T + H).values
    output.parent.mkdir(parents=True, exist_ok=True)
    beside = output.with_name("curves.csv")
    for name in MECHANISMS:
        if any(row["attention"] == name for row in rows) and beside.is_file():
            continue
        rows = [row for row in rows if row["attention"] != name]
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
            words = [*WORDS, f"attention={name}"]
            run, result = train(Settings.parse(composed(compose_words(words), words)), folder=Path(folder) / "run")
            network, seen = run.load_model(), curve(run.path, name)
        for length in LENGTHS:
            each = losses(network, values.view(SERIES, T + H), length).numpy()
            low, high = interval(each)
            row = {"attention": name, "look_back": length, "loss": float(each.mean()), "low": low, "high": high}
            row |= {"steps": STEPS, "step_ms": result["speed"]["step_ms_p50"], "series": SERIES, "seed": 1}
            rows.append(row | {"commit": commit(), "machine": device_name(torch.device("cpu"))})
            print(rows[-1], flush=True)
        curves = pd.concat([*([pd.read_csv(beside)] if beside.is_file() else []), seen])
        for path, content in ((output, pd.DataFrame(rows)), (beside, curves)):
            with path.open("wb") as file:
                write_frame(file, content.round(5), index=False)
    draw(pd.DataFrame(rows), pd.read_csv(beside), output.with_suffix(".png"))


if __name__ == "__main__":
    main()
