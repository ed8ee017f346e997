from forecast.model.presets import Sizes
from forecast.training.probe.maps import token_names
from tests.support.examples import make_model

SIZES = Sizes(num_targets=1, num_past_covariates=0, num_known=2, context_length=16, horizon=8)


def test_a_token_is_a_patch_or_the_steps_that_distilling_merges() -> None:
    patches = make_model("patch_informer", SIZES)
    assert token_names(patches, "encoder.1.self") == ("patch", "patch")
    assert token_names(patches, "decoder.0.cross") == ("horizon patch", "patch")
    steps = make_model("informer", SIZES, encoder_layers=3)
    assert [token_names(steps, f"encoder.{number}.self")[0] for number in range(3)] == ["step", "2 steps", "4 steps"]
    assert token_names(steps, "decoder.0.self") == ("step", "step")
    assert token_names(steps, "decoder.0.cross") == ("step", "4 steps")
    assert token_names(make_model("informer", SIZES, distil=False), "decoder.0.cross") == ("step", "step")
