"""The Informer of `transformers` at the sizes of ours, as their configuration has them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from forecast.attention._parsing import configured
from forecast.benchmark.models import BEFORE, NUM_KNOWN, SEED, Drawn, Preset, Task
from forecast.common.errors import InputError
from forecast.training.steps import Peer

LAG = BEFORE
"""Their tokens carry earlier values; with a lag of 0 the decoder would read what it is to forecast."""


def version() -> str:
    """Give the version of transformers.

    Raises
    ------
    InputError
        If it is not installed.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise InputError("transformers is not installed: pip install -e '.[peers]'") from None
    return str(transformers.__version__)


def configuration_of(preset: Preset, factor: int, task: Task) -> dict[str, Any]:
    """Give the values of their configuration that stand for ours; what ours has not is off, or as small as it goes.

    Raises
    ------
    InputError
        If theirs cannot have those sizes.
    """
    options = preset.options
    if preset.name != "informer":
        raise InputError(f"--model {preset.name}: transformers has the paper's model: choose informer")
    if options["head_dim"] is not None:
        raise InputError(
            f"--model informer:head_dim={options['head_dim']}: theirs shares out d_model: leave head_dim null"
        )
    return {
        "context_length": task.context_length,
        "prediction_length": task.horizon,
        "input_size": task.channels,
        "num_time_features": NUM_KNOWN,
        "lags_sequence": [LAG],
        "scaling": None,  # the windows are z-scores
        "distribution_output": "normal",  # two parameters, the fewest of the three that it has
        "attention_type": "prob",
        "sampling_factor": factor,
        "distil": options["distil"],
        "d_model": options["d_model"],
        "encoder_layers": options["encoder_layers"],
        "decoder_layers": options["decoder_layers"],
        "encoder_attention_heads": options["num_heads"],
        "decoder_attention_heads": options["num_heads"],
        "encoder_ffn_dim": options["d_ff"],
        "decoder_ffn_dim": options["d_ff"],
        "dropout": options["dropout"],
        "activation_dropout": options["dropout"],
        "attention_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
    }


def build_theirs(configuration: Mapping[str, Any]) -> nn.Module:
    """Give the model on the CPU, its weights the same at each call."""
    from transformers import InformerConfig, InformerForPrediction

    torch.manual_seed(SEED)
    model = InformerForPrediction(InformerConfig(**configuration))
    assert isinstance(model, nn.Module)
    return model


def their_peer(model: nn.Module, drawn: Drawn) -> Peer:
    """Give the model with its windows, on their device, and torch's AdamW with the settings of our optimizer.

    Without the future values their `forward` decodes a single step, so the forecast is given them too; it is
    the parameters of a distribution for each step.
    """
    device, seen = drawn.values.device, BEFORE + drawn.task.context_length
    model.to(device)
    inputs = {
        "past_values": drawn.values[:, :seen],
        "past_time_features": drawn.known[:, :seen],
        "past_observed_mask": torch.ones_like(drawn.values[:, :seen]),
        "future_values": drawn.future,
        "future_time_features": drawn.future_known,
    }

    def loss() -> Tensor:
        found: Tensor = model(**inputs).loss
        return found

    def forecast() -> object:
        return model(**inputs).params

    settings = configured("optimizer", "adamw")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"], fused=True
    )
    return Peer("transformers", model, optimizer, loss, forecast)
