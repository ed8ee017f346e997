"""The parts of compositions that the suite keeps: a composition equals Hydra's own, whatever came before it."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf

from forecast.common.conf_files import configuration_folder
from tests.support.composing import nothing_kept

WORDS = [
    ["data=etth1", "attention=probsparse", "attention.factor=3", "~callbacks.probe"],
    ["experiment=tradeoff", "model.d_model=8", "seed=2"],
    ["model=informer", "attention@decoder_attention=full", "+attention.own=[1,2]"],
]


def composed(words: list[str]) -> str:
    """Return a composition as text, after a change of every part of it that later compositions must not see."""
    with initialize_config_dir(version_base="1.3", config_dir=str(configuration_folder())):
        config = compose("config", words, return_hydra_config=True)
    text = OmegaConf.to_yaml(config)
    OmegaConf.set_struct(config, False)
    for key in list(config):
        config[key] = "changed"
    return text


@pytest.mark.parametrize("words", WORDS)
def test_a_composition_equals_hydras_own(words: list[str]) -> None:
    with nothing_kept():
        wanted = composed(words)
    assert [composed(words), composed(words)] == [wanted, wanted]


def test_a_file_is_read_again_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    file = tmp_path / "attention" / "own.yaml"
    words = ["attention=own", f"hydra.searchpath=['file://{tmp_path}']"]
    for name in ("first", "second"):
        file.write_text(f"name: {name}\n", encoding="utf-8")
        assert f"name: {name}\n" in composed(words)


@pytest.mark.parametrize("words", [["attention=absent"], ["seed=1,2"], ["absent=1"], ["seed=[1"]])
def test_an_error_is_raised_each_time(words: list[str]) -> None:
    with nothing_kept(), pytest.raises(HydraException) as wanted:
        composed(words)
    for _ in range(2):
        with pytest.raises(HydraException) as raised:
            composed(words)
        assert str(raised.value) == str(wanted.value)
