"""Small tables and models for several tests."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from forecast.attention import find
from forecast.data.windows import Windows, start_rows
from forecast.model import build
from forecast.model.informer import Informer
from forecast.model.presets import Mechanisms, Sizes
from forecast.tables.download import data_folders

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"


def real_file(name: str) -> Path:
    """Return the path of a real file beside the project or in a data folder; skip the test without it."""
    folder = next((folder for folder in (SHARED_DATA, *data_folders()) if (folder / name).is_file()), None)
    if folder is None:
        pytest.skip(f"{name} is not beside the project")
    return folder / name


FULL = {"name": "full", "implementation": "fused"}
LINEAR = {"name": "linear"}

PATCH = {
    "d_model": 16,
    "num_heads": 2,
    "head_dim": None,
    "d_ff": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "dropout": 0.0,
    "patch_length": 4,
    "stride": None,
    "channels": "independent",
    "level": "last_patch",
    "queries": "last_patch",
    "linear_path": False,
    "path_weights": "shared",
    "response_width": 0,
}
STEP = {
    "d_model": 16,
    "num_heads": 2,
    "head_dim": None,
    "d_ff": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "dropout": 0.0,
    "start_length": 4,
    "distil": True,
}
OPTIONS = {"patch_informer": PATCH, "informer": STEP}


def make_windows(
    rows: int = 60,
    *,
    context_length: int = 8,
    horizon: int = 3,
    num_targets: int = 2,
    num_covariates: int = 1,
    num_known: int = 2,
    targets: range | None = None,
    observed: Tensor | None = None,
    seed: int = 0,
) -> Windows:
    """Return windows over random numbers."""
    generator = torch.Generator().manual_seed(seed)
    part = range(rows) if targets is None else targets
    return Windows(
        values=torch.randn(rows, num_targets + num_covariates, generator=generator),
        known=torch.randn(rows, num_known, generator=generator),
        starts=start_rows(part, context_length, horizon, part="train"),
        context_length=context_length,
        horizon=horizon,
        num_targets=num_targets,
        observed=observed,
    )


def make_model(
    preset: str,
    sizes: Sizes,
    attention: dict[str, object] | None = None,
    *,
    cross: dict[str, object] = FULL,
    seed: int = 0,
    **changes: object,
) -> Informer:
    """Return a small model in evaluation mode; random weights make all its paths active."""
    torch.manual_seed(seed)
    chosen = FULL if attention is None else attention
    never_causal = find(str(chosen["name"])).causal_ability == "no"
    causal = FULL if preset == "informer" and never_causal else chosen
    mechanisms = Mechanisms(encoder=chosen, decoder=causal, cross=cross)
    model = build(preset, sizes, mechanisms, **{**OPTIONS[preset], **changes})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def make_inputs(sizes: Sizes, batch: int = 2, *, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return `past`, `past_known` and `future_known` for a model of `sizes`."""
    generator = torch.Generator().manual_seed(seed)
    channels = sizes.num_targets + sizes.num_past_covariates
    return (
        torch.randn(batch, sizes.context_length, channels, generator=generator),
        torch.randn(batch, sizes.context_length, sizes.num_known, generator=generator),
        torch.randn(batch, sizes.horizon, sizes.num_known, generator=generator),
    )


def split_windows(rows: int = 300, **options: int) -> tuple[Windows, Windows]:
    """Return windows of the first two thirds of a table, and of the rest."""
    cut = 2 * rows // 3
    return (
        make_windows(rows, targets=range(cut), **options),
        make_windows(rows, targets=range(cut, rows), **options),
    )
