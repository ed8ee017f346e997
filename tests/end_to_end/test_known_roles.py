"""Roles of columns that training refuses: one line that names the option or the cell, and nothing is written."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast.common.cli import finish
from forecast.training.train import train
from tests.support.known import KNOWN, PAST, one_error, whole
from tests.support.small import changed, quick, snapshot, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")


@dataclass(frozen=True)
class Case:
    """Options of the `data` group, a change of the table, and a pattern of the error."""

    refused: str
    options: dict[str, Any] = field(default_factory=dict)
    change: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table


def cell(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that replaces the cell in row 42 of a spreadsheet."""
    return lambda table: table.assign(**{column: table[column].astype(object).where(table.index != 40, value)})


def shifted(target: str, steps: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that replaces a known covariate by a target moved by some steps."""
    return lambda table: table.assign(**{"wind speed": 3 - 2 * table[target].shift(steps).ffill().bfill()})


def static(**values: object) -> dict[str, Any]:
    return {"static_covariates": {"size": values}}


KINDS = r"data\.static_covariates\.size: must be all numbers, all true and false, or all text"

CASES = {
    # --- roles
    "past and known": Case(
        r"data\.past_covariates and data\.known_covariates both name promo: choose one role",
        {"past_covariates": [*PAST, "promo"]},
    ),
    "target and known": Case(
        r"data\.targets and data\.known_covariates both name promo: choose", {"targets": ["load", "promo"]}
    ),
    "target and past": Case(r"data\.targets and data\.past_covariates both name air", {"targets": ["load", "air"]}),
    "known twice": Case(
        r"data\.known_covariates names promo twice: name each column once", {"known_covariates": [*KNOWN, "promo"]}
    ),
    "known twice but for blanks": Case(
        r"data\.known_covariates names promo twice", {"known_covariates": [*KNOWN, " promo"]}
    ),
    "target twice": Case(r"data\.targets names load twice: name each", {"targets": ["load", "load"]}),
    "no target left": Case("name every column: leave one to forecast", {"past_covariates": [*PAST, "load", "oil"]}),
    "the time column": Case(
        r"table\.csv: 'date' is the time column, not a covariate: its calendar is always an input",
        {"known_covariates": [*KNOWN, "date"]},
    ),
    # --- names
    "an unknown column": Case(
        r"table\.csv has no column 'promotion' \(did you mean 'promo'\?\), only .*: correct data\.past",
        {"known_covariates": [*KNOWN, "promotion"]},
    ),
    "an unknown name in categorical": Case(
        r"data\.categorical: 'tarif' is not a covariate, only air, .*tariff: correct the name",
        {"categorical": ["tarif"]},
    ),
    "a target in categorical": Case(
        r"data\.categorical: 'load' is not a covariate, only air, ", {"categorical": ["load"]}
    ),
    "categorical twice": Case(r"data\.categorical names tariff twice: name", {"categorical": ["tariff", "tariff"]}),
    "an unknown name in perfect_foresight": Case(
        r"data\.perfect_foresight: 'wind' is not a known covariate, only wind speed, .*: correct the name",
        {"perfect_foresight": ["wind"]},
    ),
    "a past covariate in perfect_foresight": Case(
        r"data\.perfect_foresight: 'air' is not a known covariate", {"perfect_foresight": ["air"]}
    ),
    # --- static covariates
    "static, an unknown target": Case(
        r"data\.static_covariates\.size: 'gas' is not a target, only load, oil: correct", static(load=1, oil=2, gas=3)
    ),
    "static, a missing target": Case(
        r"data\.static_covariates\.size: no value for the target 'oil': give one for each target", static(load=1)
    ),
    "static, one target": Case(
        r"data\.static_covariates: with the single target 'load' they are constant: they need two targets",
        {"targets": ["load"], **static(load=1)},
    ),
    "static, a number and text": Case(KINDS, static(load=1, oil="big")),
    "static, a number and true": Case(KINDS, static(load=1, oil=True)),
    "static, an empty value": Case(KINDS, static(load=1, oil=None)),
    "static, a list": Case(
        r"data\.static_covariates\.size=\[1, 2\]: must name a value for each target, as {load: 1}",
        {"static_covariates": {"size": [1, 2]}},
    ),
    "static, beyond float32": Case(
        r"data\.static_covariates\.size: 1e\+300 is no number of float32: correct it", static(load=1, oil=1e300)
    ),
    "static, not a number": Case(r"size: nan is no number of float32: correct it", static(load=1, oil=float("nan"))),
    "static, one value": Case(r"size: is the same for every target: leave it out", static(load=2, oil=2.0)),
    # --- cells
    "text in a target": Case(
        r"table\.csv, column 'load', row 42: 'broken' is not a number: write", {}, cell("load", "broken")
    ),
    "a unit in a known covariate": Case(
        r"table\.csv, column 'wind speed', row 42: '3 m/s' is not a number: .* or name it in data\.categorical",
        {},
        cell("wind speed", "3 m/s"),
    ),
    "a target of true and false": Case(
        r"table\.csv, column 'load': holds true and false, not numbers: write 1 and 0",
        {},
        lambda table: table.assign(load=table["load"] > 100),
    ),
    "an empty cell in a known covariate": Case(
        r"table\.csv, column 'wind speed', row 42: no value .* or train with data\.missing=",
        {},
        cell("wind speed", None),
    ),
    "an empty known covariate": Case(
        r"table\.csv, column 'kind': has no value in any row: leave it out of data.targets or the covariates",
        {"missing": "ffill"},
        lambda table: table.assign(kind=np.nan),
    ),
    "too many labels": Case(
        r"column 'kind' has 300 different labels in training, at most 256 are allowed: group them, or leave",
        {"split": {"train": 300, "validation": 65, "test": 65}},
        lambda table: table.assign(kind=[f"label {row}" for row in table.index]),
    ),
    # --- the answer
    "the target itself": Case(
        r"column 'wind speed' is the target 'load', so its future contains the answer: leave it out, or name it in",
        {},
        shifted("load", 0),
    ),
    "a later target": Case(r"column 'wind speed' is the target 'oil' 1 step later, so its", {}, shifted("oil", -1)),
    "a target moved by less than the horizon": Case(
        r"column 'wind speed' is the target 'load' 11 steps before, so its future contains", {}, shifted("load", 11)
    ),
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("roles")
    roles = [f"data.past_covariates=[{','.join(PAST)}]", f"data.known_covariates=[{','.join(KNOWN)}]"]
    return quick(folder, "data=csv", f"data.path={folder / 'table.csv'}", *roles, "data.categorical=[tariff]")


@pytest.mark.parametrize("name", CASES)
def test_a_role_that_does_not_fit_is_refused_in_one_line(
    name: str, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    source = write(tmp_path / "table.csv", case.change(whole(430)))
    before = snapshot(tmp_path)
    options = {f"data__{key}": value for key, value in {**case.options, "path": str(source)}.items()}
    bad = changed({**config, "output_dir": str(tmp_path / "outputs")}, **options)
    assert finish(lambda: train(bad) and None) == 2
    error = one_error(capsys)
    assert re.search(case.refused, error), error
    assert snapshot(tmp_path) == before
