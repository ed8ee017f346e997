"""The parts of compositions that the suite keeps: a composition equals Hydra's own, whatever came before it."""

import os
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf

from forecast.common.conf_files import configuration_folder
from tests.support.composing import nothing_kept

WORDS = [
    ["experiment=tradeoff", "model.d_model=8", "seed=2"],  # merges a file into the root, beside those of the next lists
    ["data=etth1", "attention=probsparse", "attention.factor=3", "~callbacks.probe"],
    ["model=informer", "attention@decoder_attention=full", "+attention.own=[1,2]"],
    [],
]


def composed(words: list[str]) -> str:
    """Return a composition as text, then change every option in it, which later compositions must not see."""
    with initialize_config_dir(version_base="1.3", config_dir=str(configuration_folder())):
        config = compose("config", words, return_hydra_config=True)
    text = OmegaConf.to_yaml(config)
    OmegaConf.set_struct(config, False)
    for key, node in config.items_ex(resolve=False):
        if key == "hydra":
            node.job.name = "changed"
        elif OmegaConf.is_dict(node):
            for inner in list(node):
                node[inner] = "changed"
        else:
            config[key] = "changed"
    return text


@pytest.mark.slow
def test_a_composition_equals_hydras_own() -> None:
    with nothing_kept():
        wanted = [composed(words) for words in WORDS]
    for _ in range(2):
        assert [composed(words) for words in WORDS] == wanted


def test_a_file_is_read_again_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    file = tmp_path / "attention" / "own.yaml"
    words = ["attention=own", f"hydra.searchpath=['file://{tmp_path}']"]
    for second, name in enumerate(("first", "other"), 1_000_000):  # of equal length
        file.write_text(f"name: {name}\n", encoding="utf-8")
        os.utime(file, (second, second))
        assert f"name: {name}\n" in composed(words)


def test_an_interpolation_in_a_defaults_list_is_resolved_as_by_hydra(tmp_path: Path) -> None:
    nested = tmp_path / "attention" / "attention"  # Hydra adds the group to an interpolated name twice
    nested.mkdir(parents=True)
    (nested.parent / "own.yaml").write_text("defaults:\n  - of_${scheduler}\n  - _self_\nname: own\n")
    (nested / "of_cosine.yaml").write_text("found: here\n")
    words = ["attention=own", "scheduler=cosine", f"hydra.searchpath=['file://{tmp_path}']"]
    with nothing_kept():
        wanted = composed(words)
    assert "found: here\n" in wanted
    assert composed(words) == wanted


@pytest.mark.parametrize("words", [["attention=absent"], ["seed=1,2"], ["absent=1"], ["seed=[1"]])
def test_an_error_is_raised_each_time(words: list[str]) -> None:
    with nothing_kept(), pytest.raises(HydraException) as wanted:
        composed(words)
    for _ in range(2):
        with pytest.raises(HydraException) as raised:
            composed(words)
        assert str(raised.value) == str(wanted.value)
