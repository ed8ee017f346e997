"""Hydra's errors in one line."""

import pytest
from hydra.errors import ConfigCompositionException

from forecast.common.conf_files import choice_files, configuration_folder
from forecast.common.configuration import EMPTY, check_places, compose_words, one_line, plain_values, without_null
from forecast.common.errors import InputError, signal_behind


def complaint(cause: BaseException) -> ConfigCompositionException:
    """Return Hydra's error for a cause, without a message."""
    try:
        try:
            raise cause
        except BaseException as caught:
            raise ConfigCompositionException from caught
    except ConfigCompositionException as error:
        return error


def test_an_error_without_a_message_has_the_message_of_its_cause() -> None:
    assert one_line(complaint(ValueError("the seed is no number"))) == "the seed is no number"
    assert one_line(complaint(ValueError())) == "ValueError"


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), SystemExit(143)])
def test_a_signal_while_hydra_composes_is_not_an_input_error(signal: BaseException) -> None:
    with pytest.raises(type(signal)) as caught:
        one_line(complaint(signal))
    assert caught.value is signal


def test_a_signal_that_was_handled_earlier_is_not_behind_a_later_error() -> None:
    earlier, error = KeyboardInterrupt(), RuntimeError("shapes differ")
    error.__context__ = earlier
    assert signal_behind(error) is earlier
    assert signal_behind(error, earlier) is None
    assert signal_behind(RuntimeError()) is None


def test_a_mechanism_for_a_place_that_the_experiment_fills_is_refused() -> None:
    words = ["experiment=diagnostic", "attention@cross_attention=mean"]
    with pytest.raises(InputError, match=r"^attention@cross_attention=mean: the experiment has .*: leave it out$"):
        check_places(compose_words(words), words)
    for fine in (words[:1], words[1:], ["experiment=diagnostic", "attention=mean"]):
        check_places(compose_words(fine), fine)


GROUPS = sorted(folder.name for folder in configuration_folder().iterdir() if folder.is_dir())


@pytest.mark.parametrize("place", [*GROUPS, "attention@cross_attention", "attention@decoder_attention"])
def test_null_leaves_a_place_without_a_choice_or_is_refused_with_the_choices(place: str) -> None:
    if place in EMPTY:
        config = compose_words([f"{place}=null"])
        assert config.get(place.rpartition("@")[2]) is None
        return
    for value in ("null", "NULL", f"null,{choice_files(place.partition('@')[0])[0].stem}"):
        with pytest.raises(InputError, match=rf"^{place}={value}: every run needs one: choose \w+"):
            compose_words([f"{place}={value}"])


def test_null_among_swept_choices_is_no_choice_too() -> None:
    place = "attention@decoder_attention"
    assert without_null([f"{place}=null,full", f"{place}=choice(full, null)"]) == [
        f"{place}=[],full",
        f"{place}=choice(full, [])",
    ]


def test_null_elsewhere_than_as_a_choice_is_left_alone() -> None:
    words = ["data.name=null", "optimizer={weight_decay: null}", "data='null'", "~logger", "model=nullify", "x=null"]
    assert without_null(words) == words
    with pytest.raises(InputError, match=r"^logger=\[null\]: null is no item of a list: leave it out$"):
        without_null(["logger=[null]"])
    with pytest.raises(InputError, match=r"^hydra/launcher=null: every run needs one: leave it out$"):
        without_null(["hydra/launcher=null"])


@pytest.mark.parametrize("word", ["model=3", "logger=true"])
def test_a_number_as_a_choice_is_one_line_too(word: str) -> None:
    with pytest.raises(InputError, match="must be a string or a list"):
        compose_words([word])


@pytest.mark.parametrize("word", ["optimizer.weight_decay", "seed"])
def test_a_whole_number_that_no_float_holds_is_refused_by_name(word: str) -> None:
    with pytest.raises(
        InputError, match=rf"^{word}: a whole number above 1\.8e\+308 is too large for a float: lower it$"
    ):
        plain_values(compose_words([f"{word}=1{'0' * 400}"]))
