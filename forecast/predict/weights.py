"""A run's weights in another model than they were trained in: another attention, another look-back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from forecast.attention._mechanisms import Variant, label_of, parse
from forecast.common.errors import InputError
from forecast.model.informer import Informer
from forecast.runs.run import Architecture, Run

OPTION = "--attention"


def attention_named(word: str) -> Variant:
    """Give the mechanism that a word such as `full` or `probsparse:factor=9` names.

    Raises
    ------
    InputError
        If there is none of that name, or it takes no such argument.
    """
    return parse(word, OPTION)


def trained_attention(run: Run) -> str:
    """Give the self-attention that a run was trained with, in words: its decoder's too where that is another one."""
    mechanisms = Architecture.from_dict(run.manifest()["architecture"]).mechanisms
    encoder, decoder = (_label(each) for each in (mechanisms.encoder, mechanisms.decoder))
    return encoder if encoder == decoder else f"{encoder} (decoder {decoder})"


def _label(mechanism: Mapping[str, Any]) -> str:
    return label_of(str(mechanism["name"]), {key: value for key, value in mechanism.items() if key != "name"})


def changed(architecture: Architecture, attention: Variant | None, context_length: int | None) -> Architecture:
    """Give the architecture with another self-attention, in encoder and decoder as the word of train.py has it.

    What is None stays as it was; cross-attention always does.
    """
    mechanisms, sizes = architecture.mechanisms, architecture.sizes
    if attention is not None:
        own = {"name": attention.name, **attention.arguments}
        mechanisms = replace(mechanisms, encoder=own, decoder=own)
    if context_length is not None:
        sizes = replace(sizes, context_length=context_length)
    return replace(architecture, mechanisms=mechanisms, sizes=sizes)


def transplant(run: Run, attention: Variant | None = None, context_length: int | None = None) -> Informer:
    """Give the run's weights in the model of another attention or look-back, on the CPU, ready to forecast.

    Raises
    ------
    InputError
        If the run is damaged, the model does not take the attention or the look-back, or one of the two has
        weights of its own, which no training has given a value.
    """
    trained = run.load_model()
    own = Architecture.from_dict(run.manifest()["architecture"])
    network = changed(own, attention, context_length).build()
    weights = trained.state_dict()
    _check(weights, network.state_dict(), trained_attention(run), "" if attention is None else attention.label)
    network.load_state_dict(weights)
    return network.eval()


def _check(weights: dict[str, Tensor], wanted: dict[str, Tensor], trained: str, attention: str) -> None:
    """Refuse a model whose weights are not those that the run has, by name and shape."""
    for name in sorted(wanted.keys() - weights.keys()):
        raise InputError(
            f"{OPTION} {attention}: has weights of its own ({name}), which this run, trained with {trained}, has "
            "not learned: choose a mechanism without any, or train with this one"
        )
    for name in sorted(weights.keys() - wanted.keys()):
        raise InputError(
            f"{OPTION} {attention}: has no place for {name}, which this run has learned with {trained}: its weights "
            "go with no other mechanism"
        )
    for name, tensor in wanted.items():
        if tensor.shape != weights[name].shape:
            raise InputError(
                f"{name} is {tuple(weights[name].shape)} in this run and would have to be {tuple(tensor.shape)}: "
                f"{_cure(name)}"
            )


def _cure(name: str) -> str:
    if name.startswith("linear_path."):
        return (
            "the linear path has a weight for each step of the look-back of training: only a run with "
            "model.linear_path=false takes another look-back"
        )
    return "these weights belong to the look-back and the arguments of training: keep both"
