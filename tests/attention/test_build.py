import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from torch import Tensor

from forecast import attention
from forecast.attention import available, build
from forecast.attention.base import Attention, CausalAbility, Cost
from forecast.common.errors import InputError
from tests.attention.cases import FILES, load

SIZES = {"num_heads": 2, "head_dim": 8}
FROM_THE_LAYER = {"num_heads", "head_dim", "causal", "max_key_length", "from_the_layer"}


def test_modules_and_yaml_files_have_the_same_names() -> None:
    assert available() == [file.stem for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_yaml_keys_are_the_arguments_of_the_constructor(file: Path) -> None:
    arguments = load(file)
    mechanism = type(build(**arguments, **SIZES, max_key_length=64))
    assert arguments.pop("name") == file.stem == mechanism.__module__.rpartition(".")[2]
    assert set(arguments) == set(inspect.signature(mechanism).parameters) - FROM_THE_LAYER
    assert file.read_text().startswith("# ")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_unknown_argument_is_refused_by_its_name(file: Path) -> None:
    with pytest.raises(InputError, match=rf"attention={file.stem} has no argument dropout"):
        build(**load(file), **SIZES, max_key_length=64, dropout=0.1)


def test_a_missing_argument_is_refused_with_the_file_that_has_it() -> None:
    with pytest.raises(
        InputError, match=r"attention=probsparse needs factor, measure: conf/attention/probsparse\.yaml"
    ):
        build("probsparse", sampling="shared", **SIZES)


@pytest.mark.parametrize("name", ["softmax", "base", "multi_head", "_sampling", "os", "full.FullAttention", "", "Full"])
def test_only_a_mechanism_of_the_folder_can_be_named(name: str) -> None:
    before = set(sys.modules)
    with pytest.raises(InputError, match=r"choose one of .*\bfull, "):
        build(name, **SIZES)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "full", "implementation": "flash"}, "implementation must be one of fused, explicit, not 'flash'"),
        ({"name": "probsparse", "factor": 0}, "factor must be an integer of at least 1, not 0"),
        ({"name": "probsparse", "factor": 2.5}, "factor must be an integer of at least 1, not 2.5"),
        ({"name": "probsparse", "factor": True}, "factor must be an integer"),
        ({"name": "probsparse", "sampling": "own"}, "sampling must be one of shared, per_query"),
        ({"name": "probsparse", "measure": "max"}, "measure must be one of sampled_mean, published"),
        ({"name": "linformer", "rank": 0}, "rank must be an integer of at least 1, not 0"),
        ({"name": "mean", "num_heads": 0}, "num_heads must be an integer of at least 1"),
        ({"name": "mean", "head_dim": -1}, "head_dim must be an integer of at least 1"),
        ({"name": "mean", "max_key_length": 0}, "max_key_length must be an integer of at least 1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    usual = next(load(file) for file in FILES if file.stem == arguments["name"])
    with pytest.raises(InputError, match=f"attention={arguments['name']}: {message}"):
        build(**{**SIZES, "max_key_length": 64, **usual, **arguments})


class Uncausal(Attention):
    """Mechanism that cannot be causal and needs keys as long as queries."""

    causal_ability: ClassVar[CausalAbility] = "no"
    cross: ClassVar[bool] = False
    time_cost: ClassVar[Cost] = Cost(length=1)
    memory_cost: ClassVar[Cost] = Cost(length=1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Any, query_mask: Any) -> Tensor:
        return value

    def attention_weights(self, query: Tensor, key: Tensor, mask: Any, query_mask: Any) -> Tensor:
        raise NotImplementedError


class Other(Uncausal):
    """Second mechanism, for a file with two."""


def module_with(monkeypatch: pytest.MonkeyPatch, *classes: type[Attention]) -> None:
    """Pretend that forecast/attention/mean.py defines these classes, and imports Attention."""
    name = "forecast.attention.mean"
    module = ModuleType(name)
    vars(module).update({"Attention": Attention} | {cls.__name__: cls for cls in classes})
    for cls in classes:
        monkeypatch.setattr(cls, "__module__", name)
    monkeypatch.setitem(sys.modules, name, module)


def test_causal_is_refused_by_a_mechanism_that_cannot_be_causal(monkeypatch: pytest.MonkeyPatch) -> None:
    module_with(monkeypatch, Uncausal)
    assert isinstance(build("mean", **SIZES), Uncausal)
    with pytest.raises(InputError, match="attention=mean cannot be causal: set attention@decoder_attention=full"):
        build("mean", **SIZES, causal=True)


class UnknownAbility(Uncausal):
    """Declares an unknown causal ability."""

    causal_ability = "always"  # type: ignore[assignment]


def test_an_unknown_causal_ability_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module_with(monkeypatch, UnknownAbility)
    message = "attention=mean: causal_ability must be one of strict, values only, no, not 'always'"
    with pytest.raises(InputError, match=message):
        build("mean", **SIZES)


def test_different_lengths_are_refused_without_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    module_with(monkeypatch, Uncausal)
    mechanism = build("mean", **SIZES)
    short, long = torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 4, 8)
    assert mechanism(long, long, long).shape == (1, 2, 4, 8)
    with pytest.raises(ValueError, match="mean needs as many queries as keys, not 3 and 4"):
        mechanism(short, long, long)


@pytest.mark.parametrize("classes", [(), (Uncausal, Other)], ids=len)
def test_a_file_without_exactly_one_mechanism_is_refused(
    monkeypatch: pytest.MonkeyPatch, classes: tuple[type[Attention], ...]
) -> None:
    module_with(monkeypatch, *classes)
    with pytest.raises(InputError, match=f"must define one subclass of Attention, it defines {len(classes)}"):
        build("mean", **SIZES)


def test_a_new_file_in_the_folder_is_a_new_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foo.py").write_text(
        "from forecast.attention.mean import MeanAttention\n\n"
        "class FooAttention(MeanAttention):\n"
        "    def __init__(self, *, bar, **from_the_layer):\n"
        "        super().__init__(**from_the_layer)\n"
        "        self.bar = bar\n"
    )
    monkeypatch.setattr(attention, "__path__", [*attention.__path__, str(tmp_path)])
    assert "foo" in available()
    try:
        foo = build("foo", **SIZES, bar=3)
    finally:
        sys.modules.pop("forecast.attention.foo", None)
        vars(attention).pop("foo", None)
    assert (type(foo).__name__, foo.bar, foo.name) == ("FooAttention", 3, "foo")
