"""Hydra's errors in one line."""

import pytest
from hydra.errors import ConfigCompositionException

from forecast.common.configuration import check_places, compose_words, one_line
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
