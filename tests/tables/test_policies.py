import pytest

from forecast.common.errors import InputError
from forecast.tables.repair import DUPLICATES, MISSING, STRICT, Policies


def test_the_default_policies_refuse() -> None:
    assert Policies() == STRICT == Policies(duplicates="error", missing="error")
    assert not STRICT.fills


@pytest.mark.parametrize(
    ("key", "value", "choices"),
    [
        ("duplicates", "median", "error, mean, first or last"),
        ("duplicates", "ffill", "error, mean, first or last"),
        ("duplicates", None, "error, mean, first or last"),
        ("missing", "bfill", "error, ffill, interpolate or mask"),
        ("missing", "mean", "error, ffill, interpolate or mask"),
        ("missing", "", "error, ffill, interpolate or mask"),
        ("missing", ["mask"], "error, ffill, interpolate or mask"),
    ],
)
def test_an_unknown_policy_is_refused_with_the_known_ones(key: str, value: str, choices: str) -> None:
    with pytest.raises(InputError) as caught:
        Policies(**{key: value})
    assert str(caught.value) == f"data.{key}={value}: choose {choices}"


@pytest.mark.parametrize("duplicates", DUPLICATES)
@pytest.mark.parametrize("missing", MISSING)
def test_every_pair_of_policies_is_accepted(duplicates: str, missing: str) -> None:
    policies = Policies(duplicates, missing)
    assert policies.fills == (missing != "error")
    assert policies.reads_past_gaps == (missing == "interpolate")
    assert policies.masks_past == (missing == "mask")
