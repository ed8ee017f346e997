"""The tested versions: within the bounds of `pyproject.toml`, and complete for what the tests install."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.constraints import FILE, versions

PROJECT = tomllib.loads((Path(FILE).parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = FILE.read_text(encoding="utf-8").splitlines()
PINNED = {one.name: str(one.specifier).removeprefix("==") for one in map(Requirement, LINES[1:])}


@pytest.mark.parametrize(
    "text", [*PROJECT["dependencies"], *(each for some in PROJECT["optional-dependencies"].values() for each in some)]
)
def test_a_tested_version_is_within_the_bounds(text: str) -> None:
    requirement = Requirement(text)
    version = PINNED.get(canonicalize_name(requirement.name))
    assert version is None or requirement.specifier.contains(version)


def test_all_that_the_tests_install_has_a_tested_version() -> None:
    wanted = [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra][0] for extra in ("docs", "optuna"))]
    wanted += PROJECT["optional-dependencies"]["test"]
    assert {canonicalize_name(Requirement(text).name) for text in wanted} <= set(PINNED)


def test_the_versions_are_those_of_packages_that_are_installed_without_local_parts() -> None:
    found = versions("forecast")
    assert list(found) == sorted(found)
    assert "forecast" not in found
    assert {"torch", "tensorboard", "antlr4-python3-runtime"} <= set(found)  # the last through hydra-core
    assert not any("+" in version for version in found.values())
