import pytest

from forecast import attention
from forecast.common.errors import InputError
from forecast.plan.candidates import candidates_of
from forecast.training.start_pretrained import RATE


def test_every_mechanism_is_planned_with_the_overrides_of_a_training() -> None:
    candidates = candidates_of(["context_length=96", "model.patch_length=1", "model.level=window"], [])
    assert [candidate.label for candidate in candidates] == attention.available()
    for candidate in candidates:
        assert candidate.config is not None
        assert candidate.config["attention"]["name"] == candidate.label
        assert (candidate.config["context_length"], candidate.config["model"]["patch_length"]) == (96, 1)


def test_mechanisms_come_from_the_option_or_from_the_override() -> None:
    (probsparse,) = candidates_of([], ["probsparse:factor=9"])
    assert probsparse.label == "probsparse factor=9"
    assert probsparse.config is not None
    assert probsparse.config["attention"]["factor"] == 9
    full, linear = candidates_of(["attention=full,linear"], [])
    assert (full.label, linear.label) == ("full", "linear")


def test_a_mechanism_that_refuses_an_override_has_a_reason_instead_of_settings() -> None:
    probsparse, mean = candidates_of(["attention=probsparse,mean", "attention.factor=9"], [])
    assert probsparse.config is not None
    assert probsparse.config["attention"]["factor"] == 9
    assert mean.config is None
    assert "factor" in mean.why


@pytest.mark.parametrize(
    ("overrides", "mechanisms", "message"),
    [
        (["attention=full"], ["linear"], "attention=full, --mechanisms linear: use only one of the two"),
        (["attention=fulll"], [], "attention=fulll: choose from "),
        ([], ["fulll"], "--mechanisms fulll: 'fulll' does not exist: choose one of "),
        (["data=nowhere"], ["full"], "data=nowhere: no such choice: choose csv, "),
        (["resume=auto"], ["full"], "resume=auto: a plan is for a training from the start"),
        (["start_from=pretrained"], ["linear"], "attention=linear: start_from=pretrained has full: leave it out"),
        (["start_from=pretrained", "model.d_model=8"], [], "model.d_model=8: start_from=pretrained has 128"),
        (["start_from=nowhere"], [], "start_from=nowhere: nowhere: no such folder"),
        (["trainer.devices=2"], ["full"], "trainer.devices=2: a plan is measured in one process"),
        (["sweep.minutes=8"], ["full"], "sweep.minutes=8: a plan is about one training: leave it out"),
        (["training.batch_size=0"], ["full"], "training.batch_size=0: must be at least 1"),
    ],
)
def test_an_impossible_plan_is_refused_in_one_line(overrides: list[str], mechanisms: list[str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        candidates_of(overrides, mechanisms)
    assert message in str(refused.value)


def test_a_plan_from_weights_has_their_network_and_learning_rate() -> None:
    (candidate,) = candidates_of(["start_from=pretrained", "context_length=96"], [])
    assert candidate.label == "full"
    assert candidate.settings is not None
    assert (candidate.settings.model["d_model"], candidate.settings.loss) == (128, "quantile")
    assert candidate.settings.optimizer["lr"] == RATE
    assert len(candidates_of(["start_from=null"], [])) == len(attention.available())
