import shutil
from pathlib import Path

import pytest

from forecast import attention
from forecast.attention import _parsing as arguments
from forecast.attention import _parsing as words
from forecast.attention._parsing import choose, parse, reference_label
from forecast.common.errors import InputError


def test_every_mechanism_is_measured_and_full_in_both_forms() -> None:
    labels = [variant.label for variant in choose([])]
    assert labels[0] == reference_label() == "full"
    assert sorted(labels) == sorted([*attention.available(), "full explicit"])


def test_a_new_mechanism_is_measured_when_its_two_files_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "attention").mkdir()
    for name in attention.available():
        (tmp_path / "attention" / f"{name}.yaml").write_text(
            (words.configuration_folder() / "attention" / f"{name}.yaml").read_text()
        )
    (tmp_path / "attention" / "yours.yaml").write_text("# yours\nname: yours\nwidth: 3\n")
    (tmp_path / "yours.py").write_text(
        "from forecast.attention.base import Cost\n"
        "from forecast.attention.mean import MeanAttention\n\n"
        "class Yours(MeanAttention):\n"
        "    time_cost = Cost(length=3)\n"
        "    def __init__(self, *, width, **layer):\n"
        "        super().__init__(**layer)\n"
    )
    monkeypatch.setattr(attention, "__path__", [*attention.__path__, str(tmp_path)])
    monkeypatch.setattr(words, "configuration_folder", lambda: tmp_path)
    yours = next(variant for variant in choose([]) if variant.name == "yours")
    assert (yours.label, yours.arguments, str(yours.time_cost(causal=False))) == ("yours", {"width": 3}, "O(L³)")


@pytest.mark.parametrize("content", ["reach: ${horizon}\n", "defaults: [yours_before, _self_]\n"])
def test_a_file_with_references_is_composed_as_for_a_training(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(words.configuration_folder(), tmp_path / "conf")
    (tmp_path / "conf" / "attention" / "yours.yaml").write_text(f"name: yours\n{content}")
    (tmp_path / "conf" / "attention" / "yours_before.yaml").write_text("reach: 96\n")
    for module in (words, arguments):
        monkeypatch.setattr(module, "configuration_folder", lambda: tmp_path / "conf")
    assert words.configured("attention", "yours") == {"reach": 96}


def test_the_fused_softmax_comes_first_and_no_variant_twice() -> None:
    assert [variant.label for variant in choose(["mean"])] == ["full", "mean"]
    assert [variant.label for variant in choose(["mean", "full", "mean:"])] == ["full", "mean"]


def test_a_label_names_values_that_differ_from_the_file() -> None:
    variant = parse("probsparse:factor=3,sampling=per_query,measure=sampled_mean")
    assert variant.label == "probsparse factor=3 per_query"
    assert variant.arguments == {"factor": 3, "sampling": "per_query", "measure": "sampled_mean"}
    assert variant.words(causal=True) == {"per_query", "sampled_mean", "causal"}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("softmax", "--mechanisms softmax: 'softmax' does not exist: choose one of "),
        ("full:explicit", "--mechanisms full:explicit: 'explicit' is not key=value"),
        ("full:implementation=", "'implementation=' is not key=value"),
        ("probsparse:factor=[", "factor must be an integer of at least 1, not '['"),
        ("probsparse:factor=0", "factor must be an integer of at least 1, not 0"),
        ("linear:factor=3", "attention=linear has no argument factor"),
        ("linear:num_heads=3", "attention.num_heads: the model sets it"),
    ],
)
def test_an_invalid_word_is_refused(word: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        choose([word])
    assert message in str(refused.value)
