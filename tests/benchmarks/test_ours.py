import pytest
import torch
from torch import nn

from benchmarks.models import Task, build_ours, our_optimizer, our_peer, parse_preset
from forecast.attention._parsing import parse
from forecast.common.errors import InputError
from forecast.training.steps import inference, training_step
from tests.benchmark.made import CPU

TASK = Task(context_length=24, horizon=6, batch=2, channels=3)
WORD = "informer:start_length=0,d_model=16,num_heads=2,d_ff=32"


def test_a_word_changes_the_named_options_of_the_file() -> None:
    preset = parse_preset("informer:start_length=0,head_dim=null,distil=false")
    assert preset.name == "informer"
    assert (preset.options["start_length"], preset.options["distil"], preset.options["head_dim"]) == (0, False, None)
    assert (preset.options["d_model"], preset.options["encoder_layers"]) == (512, 2)
    assert "name" not in preset.options


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("autoformer", "--model autoformer: unknown name 'autoformer': choose one of informer, patch_informer"),
        ("informer:d_model", "--model informer:d_model: 'd_model' is not key=value"),
        ("informer:width=3", "width"),
        ("informer:start_length=0,d_model=15", "model.d_model 15 is not divisible by model.num_heads 8"),
    ],
)
def test_an_unknown_word_is_refused(word: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        build_ours(parse_preset(word), parse("linear"), TASK)
    assert message in str(refused.value)


def test_the_model_is_reproducible_and_has_the_mechanism_in_both_self_attentions() -> None:
    preset = parse_preset(WORD)
    one, other = (build_ours(preset, parse("probsparse:factor=3"), TASK) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(one.parameters(), other.parameters(), strict=True))
    names = [module.name for module in one.modules() if hasattr(module, "causal_ability")]
    assert names == ["probsparse", "probsparse", "probsparse", "full"]


def test_a_step_lowers_the_loss_and_a_forecast_has_the_horizon_s_shape() -> None:
    drawn = TASK.draw(CPU)
    peer = our_peer(build_ours(parse_preset(WORD + ",dropout=0.0"), parse("full"), TASK), drawn)
    first = peer.loss().item()
    step = training_step(peer, "fp32")
    for _ in range(20):
        step()
    assert peer.loss().item() < first
    output = inference(peer, "fp32")()
    assert isinstance(output, torch.Tensor)
    assert output.shape == drawn.future.shape


def test_the_optimizer_is_the_default_of_a_run() -> None:
    (group,) = our_optimizer(nn.Linear(2, 2).parameters()).param_groups
    assert (group["lr"], group["weight_decay"]) == (1e-3, 0.01)
