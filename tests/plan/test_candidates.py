import pytest

from forecast import attention
from forecast.common.errors import InputError
from forecast.plan.candidates import candidates_of


def test_every_mechanism_is_planned_with_the_words_of_a_training() -> None:
    found = candidates_of(["context_length=96", "model.patch_length=1", "model.level=window"], [])
    assert [each.label for each in found] == attention.available()
    for each in found:
        assert each.config is not None
        assert each.config["attention"]["name"] == each.label
        assert (each.config["context_length"], each.config["model"]["patch_length"]) == (96, 1)


def test_mechanisms_are_named_by_the_option_with_arguments_or_by_the_override() -> None:
    (found,) = candidates_of([], ["probsparse:factor=9"])
    assert found.label == "probsparse factor=9"
    assert found.config is not None
    assert found.config["attention"]["factor"] == 9
    full, linear = candidates_of(["attention=full,linear"], [])
    assert (full.label, linear.label) == ("full", "linear")


def test_a_mechanism_that_does_not_take_an_override_is_left_out_with_the_reason() -> None:
    probsparse, mean = candidates_of(["attention=probsparse,mean", "attention.factor=9"], [])
    assert probsparse.config is not None
    assert probsparse.config["attention"]["factor"] == 9
    assert mean.config is None
    assert "factor" in mean.why


@pytest.mark.parametrize(
    ("overrides", "mechanisms", "message"),
    [
        (["attention=full"], ["linear"], "attention=full, --mechanisms linear: give one of the two"),
        (["attention=fulll"], [], "attention=fulll: choose from efficient, full"),
        ([], ["fulll"], "--mechanisms fulll: 'fulll' does not exist: choose one of efficient, full"),
        (["data=nowhere"], ["full"], "data=nowhere: no such choice: choose csv, "),
        (["resume=auto"], ["full"], "resume=auto: a plan is of a training from its beginning"),
        (["trainer.devices=2"], ["full"], "trainer.devices=2: a plan is measured in one process"),
        (["training.batch_size=0"], ["full"], "training.batch_size=0: must be at least 1"),
    ],
)
def test_what_cannot_be_planned_is_one_line(overrides: list[str], mechanisms: list[str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        candidates_of(overrides, mechanisms)
    assert message in str(refused.value)
