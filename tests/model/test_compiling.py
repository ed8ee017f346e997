"""What compiling a training changes, which is its rounding, and what it does not."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from forecast import attention
from forecast.attention._multi_head import MultiHeadAttention
from forecast.attention._parsing import attention_arguments
from forecast.attention.full import FullAttention
from forecast.common.errors import InputError
from forecast.common.group import Group
from forecast.common.place import Place
from forecast.model import build
from forecast.model.compiling import CompiledForward
from forecast.model.encoder import Distilling, Encoder, EncoderLayer
from forecast.model.presets import Mechanisms, Sizes
from forecast.runs.settings import Settings
from forecast.training.train import train
from tests.support.boards import curve
from tests.support.examples import OPTIONS, make_inputs
from tests.support.prepared import prepare
from tests.support.small import changed, quick, snapshot

CPU = torch.device("cpu")
SIZES = Sizes(num_targets=2, num_past_covariates=1, num_known=3, context_length=24, horizon=6)


@pytest.fixture(scope="module")
def arguments() -> dict[str, dict[str, Any]]:
    return attention_arguments(attention.available())


def step(call: Callable[..., Tensor], model: nn.Module, *inputs: Tensor | None) -> list[Tensor]:
    """Return loss and gradients of a step whose randomness is that of seed 3."""
    torch.manual_seed(3)
    model.zero_grad()
    loss = call(*inputs).square().mean()
    loss.backward()
    return [loss.detach(), *(each.grad for each in model.parameters() if each.grad is not None)]


# --- the model


def rotated(preset: str, step: int) -> list[Any]:
    """Return a mechanism for each place of a model, so that each mechanism comes somewhere, or with 1 in all.

    By default, a list of mechanisms is tested in one of the two presets.
    """
    names = attention.available()
    places = [[names[(first + place) % len(names)] for place in range(3)] for first in range(0, len(names), step)]
    return [
        pytest.param(
            *(preset, *three),
            id=f"{preset}-{'-'.join(three)}",
            marks=() if number % 2 == (preset == "patch_informer") else pytest.mark.exhaustive,
        )
        for number, three in enumerate(places)
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("masked", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    ("preset", "encoder", "decoder", "cross"), [*rotated("patch_informer", 3), *rotated("informer", 3)]
)
def test_each_mechanism_compiles_to_one_graph_in_each_preset(
    preset: str, encoder: str, decoder: str, cross: str, masked: bool, arguments: dict[str, dict[str, Any]]
) -> None:
    built = attention.build(**arguments[decoder], num_heads=1, head_dim=4, max_key_length=8)
    if preset == "informer" and built.causal_ability == "no":
        decoder = "full"
    if not attention.find(cross).cross:
        cross = "full"
    mechanisms = Mechanisms(arguments[encoder], arguments[decoder], arguments[cross])
    model = build(preset, SIZES, mechanisms, **{**OPTIONS[preset], "dropout": 0.2, "encoder_layers": 1}).train()
    compiled = CompiledForward(model, CPU)
    inputs, results = make_inputs(SIZES), []
    observed = torch.ones_like(inputs[0], dtype=torch.bool)
    observed[0, :9] = observed[1, -2:] = False
    # Causal efficient has another form when it is not compiled, whose rounding bfloat16 would magnify.
    half = preset == "informer" and decoder != "efficient"
    for call in (model, compiled):
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            results.append(step(call, model, *inputs, observed if masked else None))
    assert compiled.recompiles == 1  # of the whole: in more than one piece it would have been refused
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.usefixtures("traced")
def test_distilling_compiles_to_one_graph_with_hidden_tokens() -> None:
    layer = Distilling(8).train()
    compiled = CompiledForward(layer, CPU)
    tokens, mask = torch.randn(4, 9, 8), torch.rand(4, 9) > 0.3
    start, results = {name: each.clone() for name, each in layer.state_dict().items()}, []
    for call in (layer, compiled):
        layer.load_state_dict(start)
        results.append([*step(call, layer, tokens, mask), *(each.clone() for each in layer.buffers())])
    assert compiled.recompiles == 1
    torch.testing.assert_close(results[1], results[0], atol=1e-5, rtol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_compiled_layer_draws_the_random_numbers_of_the_eager_layer(arguments: dict[str, dict[str, Any]]) -> None:
    mechanism = attention.build(**{**arguments["probsparse"], "factor": 1}, num_heads=2, head_dim=8)
    layer = EncoderLayer(MultiHeadAttention(16, 2, mechanism), 16, 32, dropout=0.2, norm_first=True)
    encoder = Encoder([layer], [], 16)
    encoder.activation_checkpointing = True  # what was drawn in the forward pass is drawn again in the backward pass
    compiled = CompiledForward(encoder, CPU)  # type: ignore[arg-type]
    tokens = torch.randn(4, 24, 16)
    torch.testing.assert_close(step(compiled, encoder, tokens), step(encoder, encoder, tokens), atol=1e-5, rtol=1e-4)


# --- the run


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a run with all that draws and all that keeps statistics: dropout, ProbSparse, batch norm."""
    words = ["attention=probsparse", "attention.factor=1", "training.validations_per_epoch=8", "optimizer.lr=0.01"]
    return quick(tmp_path_factory.mktemp("compiling"), *words, model="informer")


PLAIN = {"model__distil": False, "model__encoder_layers": 1}
"""Without batch norm, whose statistics follow a bias that has no gradient but rounding's, which AdamW magnifies.

One layer is traced faster than two.
"""


@pytest.fixture(scope="module")
def eager(config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return train(changed(config, **PLAIN))


def assert_same(results: tuple[Any, dict[str, Any]], eager: tuple[Any, dict[str, Any]]) -> None:
    # Not the weights: AdamW magnifies the rounding that is all the gradient of a bias of keys.
    errors = [pd.read_parquet(run.path / "errors.parquet") for run, _ in (results, eager)]
    pd.testing.assert_frame_equal(errors[0], errors[1], rtol=1e-3)
    assert results[1]["test"]["scaled"] == pytest.approx(eager[1]["test"]["scaled"], rel=1e-4)
    assert results[1]["model"] == eager[1]["model"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("traced")
def test_a_compiled_run_matches_an_eager_run(
    config: dict[str, Any], eager: tuple[Any, dict[str, Any]], tmp_path: Path
) -> None:
    options = {f"training__{name}": True for name in ("compile", "profile")}
    run, result = train(changed(config, output_dir=str(tmp_path), **options, **PLAIN))
    assert_same((run, result), eager)
    speed = json.loads((run.path / "result.json").read_text())["speed"]
    assert speed["recompiles"] == 0  # though it was validated between steps
    assert 0 < curve(run.path, "speed/compile_seconds").popitem()[1] == pytest.approx(speed["compile_seconds"])
    assert not {"compile_seconds", "recompiles"} & set(eager[1]["speed"])


def test_a_machine_without_a_compiler_refuses_in_one_line_before_anything_is_written(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (None, str(tmp_path / "c++")))
    with pytest.raises(InputError, match=r"no C\+\+ compiler here.*install g\+\+.*training.compile=false") as refused:
        train(changed(config, output_dir=str(tmp_path / "outputs"), training__compile=True))
    assert "\n" not in str(refused.value)
    assert snapshot(tmp_path) == {}


@pytest.mark.usefixtures("traced")
def test_a_mechanism_that_cannot_be_compiled_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deciding(self: FullAttention, query: Tensor, *_: Any) -> Tensor:
        return query if query.max() > 0 else -query

    monkeypatch.setattr(FullAttention, "attend", deciding)
    with pytest.raises(InputError) as refused:
        train(quick(tmp_path, "training.compile=true"))
    message = str(refused.value)
    pattern = r"training.compile=true: this model cannot be compiled here \(.+\): train with .*=false"
    assert re.fullmatch(pattern, message)


# --- what it cost


@pytest.mark.usefixtures("traced")
def test_a_new_shape_counts_as_recompile_and_warming_up_changes_no_weight() -> None:
    network = nn.BatchNorm1d(2)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    compiled = CompiledForward(network, CPU)  # type: ignore[arg-type]
    batch = torch.randn(8, 2)
    compiled.make_ready(lambda: compiled(batch).square().mean())
    assert compiled.seconds > 0
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in network.parameters())
    compiled(batch + 1)
    assert compiled.recompiles == 0
    compiled(batch[:5])
    assert compiled.recompiles == 1


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_many_runs_compile_in_one_process() -> None:
    for width in range(2, 14):  # more than torch compiles one function for
        network = nn.Linear(width, 1)
        compiled = CompiledForward(network, CPU)  # type: ignore[arg-type]
        assert compiled(torch.ones(3, width)).shape == (3, 1)


@pytest.mark.usefixtures("traced")
def test_a_network_that_communicates_with_other_processes_is_refused(config: dict[str, Any]) -> None:
    config = changed(config, training__compile=True)
    with pytest.raises(InputError, match=r"communicates with all 2 processes.*model.distil=false"):
        prepare(Settings.parse(config), Group(Place(size=2, local_size=2)))
    prepare(Settings.parse(changed(config, model__distil=False)), Group(Place(size=2, local_size=2)))
