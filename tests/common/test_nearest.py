"""Errors for unknown options name the nearest known ones."""

from importlib.util import find_spec

import pytest

from forecast.common.conf_files import SYNONYMS, nearest_options, option_files
from forecast.common.configuration import compose_words
from forecast.common.errors import InputError
from forecast.runs.settings import Settings
from forecast.training.sweep.overrides import check_choices
from tests.support.small import compose


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("horizn=96", "horizn: no such option: did you mean horizon?"),
        ("epochs=5", "epochs: no such option: did you mean training.max_epochs?"),
        ("training.share_prior=0", "training.share_prior: no such option: did you mean training.mixing_prior?"),
        ("data.exogenous=x", "data.exogenous: no such option: did you mean data.past_covariates or .*"),
        ("attention.factor=9", ".*: the chosen attention has no such option: attention=probsparse has it"),
        ("data.path=a", r"data.path: the chosen data has no such option: data=csv and \d+ more have it"),
        ("~callbacks.prob", "callbacks.prob: no such option: did you mean callbacks.probe?"),
        ("hydra.launcher.jib=1", "hydra.launcher.jib: Hydra has no such option"),
        ("foo.bar=1", "foo.bar: no such option: python train.py --help lists .*"),
        ("attention=probspars", ".*: no such choice: choose .*; did you mean attention=probsparse?"),
        ("data=etth", "data=etth: no such choice: choose csv, .* or weather; did you mean data=etth1 or data=etth2?"),
        (
            "attention@decoder_attention=ful",
            "attention@decoder_attention=ful: no such choice: .*; did you mean attention@decoder_attention=full?",
        ),
        ("model=zzz", "model=zzz: no such choice: choose informer or patch_informer"),
        ("hydra/launcher=zzz", "hydra/launcher=zzz: no such choice: choose basic.*"),
    ],
)  # fmt: skip
def test_an_unknown_word_gets_the_nearest_known_one(word: str, line: str) -> None:
    with pytest.raises(InputError, match=f"^{line.replace('?', '[?]')}$"):
        compose_words([word])


@pytest.mark.skipif(find_spec("submitit") is not None, reason="the extra slurm is installed")
def test_a_launcher_that_is_not_installed_gets_its_extra() -> None:
    line = r"^hydra/launcher=submitit_slurm: it is not installed: pip install -e '\.\[slurm\]'$"
    with pytest.raises(InputError, match=line):
        compose_words(["hydra/launcher=submitit_slurm"])


def test_a_force_added_option_gets_the_nearest_too() -> None:
    with pytest.raises(InputError, match=r"^horizn: no such option: did you mean horizon\?$"):
        Settings.parse({**compose(), "horizn": 96})


@pytest.mark.parametrize("word", ["attention=3", "data=true", "attention@cross_attention=1.5"])
def test_an_invalid_choice_is_refused_with_the_choices(word: str) -> None:
    with pytest.raises(InputError, match=f"^{word}: no such choice: choose "):
        check_choices([word])


def test_an_absent_choice_and_several_choices_are_left_to_hydra() -> None:
    check_choices(["attention@decoder_attention=null", "attention=full,mean", "callbacks={}", "~callbacks", "seed=3"])


def test_the_option_of_every_synonym_exists() -> None:
    assert {name for name in SYNONYMS if name not in option_files()} == set()


def test_an_option_with_a_letter_too_many_is_found_again() -> None:
    names = [name for name in option_files() if name.startswith(("training", "data", "model", "sweep"))]
    assert len(names) > 50
    assert [name for name in names if name not in nearest_options(f"{name}x")] == []
