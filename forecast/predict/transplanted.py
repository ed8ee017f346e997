"""Transplant the weights of a run to another self-attention."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from forecast.attention._parsing import label_of, parse
from forecast.common.errors import InputError
from forecast.model.informer import Informer
from forecast.runs.run import Architecture, Run

OPTION = "--attention"


def trained_attention(run: Run) -> str:
    """Return the label of a run's self-attention, with that of the decoder if it differs."""
    mechanisms = Architecture.from_dict(run.manifest()["architecture"]).mechanisms
    encoder, decoder = _label(mechanisms.encoder), _label(mechanisms.decoder)
    return encoder if encoder == decoder else f"{encoder} (decoder {decoder})"


def _label(mechanism: Mapping[str, Any]) -> str:
    return label_of(str(mechanism["name"]), {key: value for key, value in mechanism.items() if key != "name"})


def transplanted(run: Run, attention: str) -> Informer:
    """Return a model with the run's weights and another self-attention in encoder and decoder.

    `attention` is a mechanism such as `full` or `probsparse:factor=9`. Cross-attention does not change. The model is on
    the CPU, in evaluation mode.
    """
    variant, trained = parse(attention, OPTION), run.load_model()
    architecture = Architecture.from_dict(run.manifest()["architecture"])
    mechanism = {"name": variant.name, **variant.arguments}
    mechanisms = replace(architecture.mechanisms, encoder=mechanism, decoder=mechanism)
    network = replace(architecture, mechanisms=mechanisms).build()
    weights = trained.state_dict()
    _check(weights, network.state_dict(), trained_attention(run), variant.label)
    network.load_state_dict(weights)
    return network.eval()


def _check(weights: dict[str, Tensor], expected: dict[str, Tensor], trained: str, attention: str) -> None:
    """Raise InputError if names or shapes of the run's weights differ from those of the new model."""
    for name in sorted(expected.keys() - weights.keys()):
        raise InputError(
            f"{OPTION} {attention}: has a weight ({name}) that this run, trained with {trained}, does not have: choose "
            "a mechanism without weights, or train with this one"
        )
    for name in sorted(weights.keys() - expected.keys()):
        raise InputError(
            f"{OPTION} {attention}: does not have {name}, a weight of this run, trained with {trained}: its weights "
            "fit no other mechanism"
        )
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise InputError(
                f"{name} has shape {tuple(weights[name].shape)} in this run, not {tuple(tensor.shape)}: this weight "
                "depends on the look-back and the arguments of the mechanism: keep both"
            )
