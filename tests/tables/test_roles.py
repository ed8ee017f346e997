"""The roles of columns."""

import pytest

from forecast.common.errors import InputError
from forecast.tables.roles import OPTIONS, Roles


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (Roles(["load", "load"]), "data.targets names load twice"),
        (Roles(["load"], ["load"]), "data.targets and data.past_covariates both name load: choose one role"),
        (Roles(None, ["air"], ["air"]), "data.past_covariates and data.known_covariates both name air"),
        (Roles(["load"], ["air"], categorical=["wind"]), "data.categorical: 'wind' is not a covariate, only air"),
        (Roles(["load"], ["air"], perfect_foresight=["air"]), "'air' is not a known covariate, there is none"),
    ],
)
def test_roles_that_contradict_each_other_are_refused(roles: Roles, message: str) -> None:
    with pytest.raises(InputError, match=message):
        roles.check()


def test_roles_are_read_back_from_the_facts_of_a_manifest() -> None:
    for roles in (Roles(["load"]), Roles(["load", "oil"], ["air"], ["wind"])):
        assert Roles.of(roles.facts()) == roles
    assert OPTIONS["known"] not in Roles(["load"]).facts()


def test_targets_that_are_not_named_are_all_columns() -> None:
    assert Roles(None, ["air"]).columns is None
    assert Roles(["load"], ["air"], ["wind"]).columns == ["load", "air", "wind"]


def test_names_have_no_blanks_at_their_ends_after_tidying() -> None:
    assert Roles([" load"], ["air "]).tidied() == Roles(["load"], ["air"])
    assert Roles().tidied() == Roles()
