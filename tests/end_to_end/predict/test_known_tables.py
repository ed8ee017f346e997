"""Tables with what is known ahead, good and bad: the exact forecast, or one line that says what to correct."""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecast.predict.ensemble import load
from forecast.predict.forecaster import Forecaster
from tests.support.covering import covering
from tests.support.forecasts import edit, put
from tests.support.known import (
    DATES,
    FEW,
    KNOWN,
    ORIGIN,
    Make,
    check_forecast,
    extended,
    future,
    one_error,
    past,
    recoded,
    replaced,
    run_predict,
    save,
    whole,
)
from tests.support.small import HORIZON

pytestmark = pytest.mark.filterwarnings("ignore:.*not seen in training")  # of the expected forecasts, made in Python


@dataclass(frozen=True)
class Case:
    """Files of a command, and what it does with them.

    `source` makes the input, `known` the other files, with the file name `ending`. The forecast is that of the table
    `equals` over the horizon, and a printed line matches `says`. A case with `refused`, a pattern of the error, has no
    forecast. `missing` are the steps and columns with empty cells in the template. `duplicates` is the policy of the
    run.
    """

    source: Make = past
    known: Sequence[Make] = (future,)
    ending: str = ".csv"
    equals: Make = future
    says: str = ""
    refused: str = ""
    missing: tuple[Sequence[int], Sequence[str]] | None = None
    duplicates: str = "error"


def at(row: int, column: str, cell: object) -> Make:
    """Return a function that makes the future with another cell."""
    return replaced(future, row, column, cell)


def with_past() -> pd.DataFrame:
    return whole().iloc[: ORIGIN + HORIZON][["date", *KNOWN]]


def without_kind() -> pd.DataFrame:
    """Return the past and the future in one table, the future without labels of one column."""
    return extended().assign(kind=lambda table: table["kind"].where(table.index < ORIGIN))


def doubled(make: Make, row: int, **other: object) -> Make:
    """Return a function that makes the table with one row twice, the second time with other cells."""
    return lambda: pd.concat([make(), make().loc[[row]].assign(**other)])


def in_zone(make: Make) -> Make:
    return lambda: make().assign(date=make()["date"].dt.tz_localize("UTC"))


def dates_of(*periods: str) -> Make:
    """Return a function that makes the future at the times `start`, `frequency`."""
    return lambda: future().assign(date=pd.date_range(periods[0], periods=HORIZON, freq=periods[1]))


def columns(*names: str) -> Make:
    return lambda: future()[["date", *names]]


UNITS = recoded(future, "wind speed", lambda speed: f"{speed} m/s")
YES_NO = recoded(future, "promo", lambda promo: "yes" if promo else "no")
NOT_SEEN = r"1 value of 'kind' not seen in training counts as unknown: 'd'"
NUMBERS = "write numbers with a decimal point and without unit, or true and false, as in training"
NO_WIND = r"'wind speed', 'promo', 'kind' and 1 more"
TO_FILL = r"or fill in \S+out-known\.csv, which has these rows, and add --known \S+out-known\.csv"

GOOD = {
    # --- places
    "future in the same file": Case(extended, ()),
    "more than the horizon in the same file": Case(lambda: extended(40), ()),
    "future in a second file": Case(),
    "future in two second files": Case(past, (lambda: future().iloc[:5], lambda: future().iloc[5:])),
    "columns in two second files": Case(past, (columns("promo", "kind"), columns("wind speed", "tariff"))),
    "one column in a second file": Case(without_kind, (columns("kind"),)),
    "first steps in the same file, the others in a second": Case(lambda: extended(6), (lambda: future().iloc[6:],)),
    "the input has other future values": Case(replaced(extended, ORIGIN + 3, "wind speed", 9.0)),
    "the input has a future label that is unknown": Case(replaced(extended, ORIGIN + 3, "kind", "d")),
    "the input has a huge future value": Case(replaced(extended, ORIGIN + 3, "wind speed", 1e30)),
    "the second of two files has other values": Case(past, (future, at(3, "kind", "b"))),
    "the input fills an empty cell of the second file": Case(extended, (at(3, "wind speed", None),)),
    # --- rows and columns of the second file
    "rows out of order": Case(
        past,
        (lambda: future().sample(frac=1, random_state=1),),
        says=r"known0\.csv: \d+ rows out of order: sorted by date",
    ),
    "columns in another order": Case(past, (lambda: future()[["kind", "tariff", "date", "promo", "wind speed"]],)),
    "extra columns": Case(past, (lambda: future().assign(remark="x", second=future()["date"]),)),
    "blanks around the names": Case(
        past, (lambda: future().add_suffix(" "),), says=r"known0\.csv: column names without their blanks: 'date', "
    ),
    "another name of the time column": Case(past, (lambda: future().rename(columns={"date": "when"}),)),
    "past rows too": Case(past, (with_past,)),
    "past rows with other values": Case(past, (replaced(with_past, ORIGIN - 1, "wind speed", 1e30),)),
    "past rows with an unknown label": Case(past, (replaced(with_past, ORIGIN - 1, "kind", "d"),)),
    "more rows than the horizon": Case(past, (lambda: future(40),)),
    "a huge value after the horizon": Case(past, (replaced(lambda: future(40), 20, "wind speed", 1e30),)),
    "an empty cell after the horizon": Case(past, (replaced(lambda: future(40), 20, "kind", None),)),
    "rows between the steps": Case(
        past, (lambda: pd.concat([future(), future().assign(date=DATES + pd.Timedelta("30min"))]),)
    ),
    "targets are ignored": Case(past, (lambda: future().assign(load=1e30, oil="none", air=np.inf),)),
    "a blank row": Case(
        past, (lambda: pd.concat([future(), future().iloc[[0]].map(lambda _: None), future(14)[12:]]),)
    ),
    "the whole table": Case(past, (lambda: whole().iloc[: ORIGIN + HORIZON],)),
    # --- kinds of file
    "Parquet": Case(ending=".parquet"),
    "gzip": Case(ending=".csv.gz"),
    "Parquet with the times as index": Case(past, (lambda: future().set_index("date"),), ending=".parquet"),
    # --- ways to write a value
    "TRUE and FALSE": Case(past, (recoded(future, "promo", lambda promo: str(promo).upper()),)),
    "true and false with blanks": Case(past, (recoded(future, "promo", lambda promo: f" {promo} "),)),
    "1 and 0": Case(past, (recoded(future, "promo", int),)),
    "true, false and 1": Case(past, (at(int(future()["promo"].to_numpy().argmax()), "promo", 1),)),
    "true and false as text": Case(past, (recoded(future, "promo", str),), ending=".parquet"),
    "numbers as text": Case(past, (recoded(future, "wind speed", repr),), ending=".parquet"),
    "numbered labels as text": Case(past, (recoded(future, "tariff", str),), ending=".parquet"),
    "numbered labels with decimals": Case(past, (recoded(future, "tariff", float),)),
    "numbers as a pandas Categorical": Case(
        past, (lambda: future().astype(dict.fromkeys(KNOWN, "category")),), ending=".parquet"
    ),
    "blanks around labels": Case(past, (recoded(future, "kind", lambda kind: f" {kind} "),)),
    "the past as text": Case(lambda: past().astype({"wind speed": str, "promo": str, "tariff": str})),
    # --- labels new to training
    "an unknown label": Case(
        past, (at(3, "kind", "d"),), equals=at(3, "kind", "other"), says=rf"known0\.csv: {NOT_SEEN}"
    ),
    "an unknown label in the same file": Case(
        replaced(extended, ORIGIN + 3, "kind", "d"),
        (),
        equals=at(3, "kind", "other"),
        says=rf"input\.csv: {NOT_SEEN}",
    ),
    "labels in capitals": Case(
        past,
        (recoded(future, "kind", lambda kind: str(kind).upper()),),
        equals=recoded(future, "kind", lambda _: "other"),
        says=r"12 values of 'kind' not seen in training count as unknown: '\w', '\w'",
    ),
    "numbers where training has labels": Case(
        past,
        (recoded(future, "kind", lambda _: 1),),
        equals=recoded(future, "kind", lambda _: "other"),
        says=r"'1' \(training has 'a'",
    ),
    "a fraction where training has numbered labels": Case(
        past, (at(3, "tariff", 1.5),), equals=at(3, "tariff", "other"), says="1 value of 'tariff' .*'1.5' \\(training"
    ),
    "a long unknown label": Case(
        past, (at(3, "kind", "d" * 500),), equals=at(3, "kind", "other"), says=rf"unknown: '{'d' * 40}…' \(training"
    ),
    "an unknown label of the past before the look-back": Case(replaced(past, FEW + 1, "kind", "d")),
    # --- doubled dates
    "a date twice, mean": Case(
        past,
        (doubled(future, 3, **{"wind speed": 2 + future()["wind speed"][3], "kind": "d"}),),
        equals=at(3, "wind speed", 1 + future()["wind speed"][3]),
        duplicates="mean",
        says=r"known0\.csv: 1 time had several rows: 2 rows were merged into 1 \(data.duplicates=mean\)",
    ),
    "a date twice, last": Case(
        past,
        (doubled(future, 3, **{"wind speed": 2.5}),),
        equals=at(3, "wind speed", 2.5),
        duplicates="last",
    ),
}

BAD = {
    # --- whole dates or columns are missing
    "no future": Case(
        past,
        (),
        refused=rf"no values of {NO_WIND} for 12 dates, 2024-01-11 00:00:00 to 2024-01-11 11:00:00: .*{TO_FILL}",
        missing=(range(12), KNOWN),
    ),
    "a date in the middle": Case(
        past,
        (lambda: future().drop(index=4),),
        refused=rf"no values of {NO_WIND} for 2024-01-11 04:00:00: .*add rows",
        missing=([4], KNOWN),
    ),
    "the first date": Case(past, (lambda: future()[1:],), refused="for 2024-01-11 00:00:00:", missing=([0], KNOWN)),
    "the last date": Case(past, (lambda: future()[:-1],), refused="for 2024-01-11 11:00:00:", missing=([11], KNOWN)),
    "the last date in the same file": Case(
        lambda: extended(11), (), refused="for 2024-01-11 11:00:00:", missing=([11], KNOWN)
    ),
    "one column": Case(
        past,
        (lambda: future().drop(columns="wind speed"),),
        refused=r"no values of 'wind speed' for 12 dates, .* \(\S+known0\.csv has no column 'wind speed'\): .*add rows",
        missing=(range(12), ["wind speed"]),
    ),
    "one column in the same file": Case(
        without_kind,
        (),
        refused=r"input\.csv, column 'kind', row 62: no value .* \(12 such cells in the horizon\): fill it in, or",
        missing=(range(12), ["kind"]),
    ),
    "every column": Case(
        past,
        (lambda: future()[["date"]].assign(other=1),),
        refused=r"known0\.csv has no column 'wind speed', only date, other: correct the names of its columns",
    ),
    "every third date": Case(
        past,
        (lambda: future()[::3],),
        refused="for 8 dates, 2024-01-11 01:00:00 to 2024-01-11 11:00:00:",
        missing=([1, 2, 4, 5, 7, 8, 10, 11], KNOWN),
    ),
    "days": Case(past, (dates_of("2024-01-11", "D"),), refused="for 11 dates", missing=(range(1, 12), KNOWN)),
    "an earlier period": Case(
        past,
        (dates_of("2024-01-02", "h"),),
        refused=r"\(\S+known0\.csv has 2024-01-02 00:00:00 to 2024-01-02 11:00:00\): .*add rows",
        missing=(range(12), KNOWN),
    ),
    "a later period": Case(
        past,
        (dates_of("2024-01-11 12:00", "h"),),
        refused=r"\(\S+known0\.csv has 2024-01-11 12:00:00 to 2024-01-11 23:00:00\): .*add rows",
        missing=(range(12), KNOWN),
    ),
    "a time off the grid": Case(
        past,
        (at(3, "date", pd.Timestamp("2024-01-11 03:10")),),
        refused=r"for 2024-01-11 03:00:00 \(\S+known0\.csv, row 5: 2024-01-11 03:10:00 is off the grid\): .*add rows",
        missing=([3], KNOWN),
    ),
    # --- empty cells
    "an empty cell": Case(
        past,
        (at(3, "kind", None),),
        refused=rf"known0\.csv, column 'kind', row 5: no value at 2024-01-11 03:00:00, .*fill it in, {TO_FILL}",
        missing=([3], ["kind"]),
    ),
    "an empty cell in the same file": Case(
        replaced(extended, ORIGIN + 3, "promo", None),
        (),
        refused=r"input\.csv, column 'promo', row 65: no value at 2024-01-11 03:00:00, .*fill it in",
        missing=([3], ["promo"]),
    ),
    "an empty cell in Parquet": Case(
        past,
        (at(3, "wind speed", np.nan),),
        ending=".parquet",
        refused=r"known0\.parquet, column 'wind speed', row 5: no value at 2024-01-11 03:00:00",
        missing=([3], ["wind speed"]),
    ),
    "n/a": Case(
        past,
        (at(3, "wind speed", "n/a"),),
        refused=r"column 'wind speed', row 5: no value",
        missing=([3], ["wind speed"]),
    ),
    "blanks as a number": Case(
        past, (at(3, "wind speed", "  "),), refused="column 'wind speed', row 5: no", missing=([3], ["wind speed"])
    ),
    "blanks as a label": Case(
        past, (at(3, "kind", "  "),), refused="column 'kind', row 5: no value", missing=([3], ["kind"])
    ),
    "a column of blanks": Case(
        past,
        (recoded(future, "kind", lambda _: " "),),
        refused=r"column 'kind', row 2: no value .*\(12 such cells in the horizon\)",
        missing=(range(12), ["kind"]),
    ),
    "empty cells in two files": Case(
        past,
        (at(3, "kind", None), at(3, "kind", None)),
        refused="known0.csv, column 'kind', row 5: no value",
        missing=([3], ["kind"]),
    ),
    # --- cells that training cannot read
    "yes and no": Case(past, (YES_NO,), refused=rf"known0\.csv, column 'promo', row 2: '(yes|no)' .*number: {NUMBERS}"),
    "yes and no in the past": Case(
        recoded(past, "promo", lambda promo: "yes" if promo else "no"),
        refused=rf"input\.csv, column 'promo', row 2: '(yes|no)' is not a number: {NUMBERS}",
    ),
    "a unit": Case(
        past,
        (at(3, "wind speed", "1.5 m/s"),),
        refused=rf"known0\.csv, column 'wind speed', row 5: '1.5 m/s' is not a number: {NUMBERS}",
    ),
    "a unit in every row": Case(
        past, (UNITS,), refused=rf"known0\.csv, column 'wind speed', row 2: '.* m/s' .*: {NUMBERS}"
    ),
    "a unit in every row of the past": Case(
        recoded(past, "wind speed", lambda speed: f"{speed} m/s"),
        refused=rf"input\.csv, column 'wind speed', row 2: '.* m/s' is not a number: {NUMBERS}",
    ),
    "a past covariate as text": Case(
        recoded(past, "air", lambda _: "mild"), refused=r"input\.csv, column 'air', row 2: 'mild' is not a number"
    ),
    "dates as a number": Case(
        past,
        (lambda: future().assign(**{"wind speed": DATES}),),
        ending=".parquet",
        refused=rf"known0\.parquet, column 'wind speed': holds datetime64.*, not numbers: {NUMBERS}",
    ),
    "a decimal comma": Case(
        past, (at(3, "wind speed", "1,5"),), refused=r"column 'wind speed', row 5: '1,5' .*decimal point"
    ),
    "a dash": Case(past, (at(3, "wind speed", "-"),), refused=r"column 'wind speed', row 5: '-' is not a number"),
    "a huge value": Case(
        past,
        (at(3, "wind speed", 1e30),),
        refused=r"known0\.csv, column 'wind speed', 2024-01-11 03:00:00: 1e\+30 .* deviations .*: correct it",
    ),
    "a huge value in the same file": Case(
        replaced(extended, ORIGIN + 3, "wind speed", 1e30),
        (),
        refused=r"input\.csv, column 'wind speed', 2024-01-11 03:00:00: 1e\+30 .* deviations .*: correct it",
    ),
    "a value beyond float32": Case(
        past, (at(3, "wind speed", 1e300),), refused=r"column 'wind speed', row 5: 1e\+300 is too large for float32"
    ),
    "infinity": Case(
        past, (at(3, "wind speed", np.inf),), refused=r"column 'wind speed', row 5: an infinite value .*correct it"
    ),
    "control characters in a label": Case(
        past,
        (at(3, "kind", "\x1b[31m"),),
        refused=r"column 'kind', row 5: the label .* has control characters: correct",
    ),
    # --- dates
    "a date twice": Case(
        past, (doubled(future, 3),), refused=r"known0\.csv, rows 5 and 14: both are at 2024-01-11 03:00:00 .*keep one"
    ),
    "a date twice in the same file": Case(
        doubled(extended, ORIGIN + 3), (), refused=r"input\.csv, rows 65 and 74: both are at 2024-01-11 03:00:00"
    ),
    "a time zone in the second file only": Case(
        past, (in_zone(future),), refused=r"known0\.csv: its times have a time zone, the training data has none: write"
    ),
    "a time zone in the input only": Case(
        in_zone(past), refused=r"input\.csv: its times have a time zone, the training data has none: write"
    ),
    "no time column": Case(
        past, (lambda: future().drop(columns="date"),), refused=r"known0\.csv: no column holds dates"
    ),
    "two unnamed times": Case(
        past,
        (lambda: future().assign(when=DATES, then=DATES).drop(columns="date"),),
        refused=r"known0\.csv: 'when', 'then' all hold dates",
    ),
    "ambiguous dates": Case(
        past,
        (lambda: future().assign(date=DATES.strftime("%m/%d/%Y %H:%M")),),
        refused=r"known0\.csv, column 'date', row 2: '01/11/2024 00:00' is ambiguous, day or month first: write",
    ),
    "no date in a row": Case(
        past, (at(3, "date", None),), refused=r"known0\.csv, column 'date', row 5: no date .*fill"
    ),
    # --- tables
    "the input without known columns": Case(
        lambda: past().drop(columns=KNOWN),
        refused=r"input\.csv has no column 'wind speed', which the model was trained on",
    ),
    "a second file without rows": Case(past, (lambda: future()[:0],), refused=r"known0\.csv has no rows .*: add data"),
    "a name that appears twice": Case(
        past,
        (lambda: future().assign(other=1).rename(columns={"other": "kind "}),),
        refused=r"known0\.csv, row 1: column 'kind' appears twice: rename one",
    ),
}


@pytest.fixture(scope="module")
def forecaster(known_run: Path) -> Forecaster:
    return load(known_run)


@pytest.fixture(scope="module")
def runs(known_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the run by its policy for duplicate times."""
    result = {"error": known_run}
    for policy in ("mean", "last"):
        result[policy] = Path(shutil.copytree(known_run, tmp_path_factory.mktemp(policy) / "run"))
        edit(result[policy], put("data", "duplicates", value=policy))
    return result


def run_case(case: Case, runs: dict[str, Path], folder: Path) -> tuple[int, set[str]]:
    known = [save(folder / f"known{place}{case.ending}", make()) for place, make in enumerate(case.known)]
    return run_predict(runs[case.duplicates], folder, case.source().loc[FEW:], *known)


@pytest.fixture(scope="module")
def expected(forecaster: Forecaster) -> Callable[[str], pd.DataFrame]:
    """Return a function that makes the forecast of a case in Python, once."""
    return cache(lambda name: forecaster.predict(past(), known=GOOD[name].equals()))


@pytest.mark.parametrize("name", covering(GOOD, every=2))
def test_a_good_table_gives_the_forecast_of_its_values(
    name: str,
    expected: Callable[[str], pd.DataFrame],
    runs: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = GOOD[name]
    assert run_case(case, runs, tmp_path) == (0, {"out.csv", "out.json", "out.png"})
    check_forecast(tmp_path / "out.csv", expected(name))
    lines = capsys.readouterr().out.splitlines()
    if case.says:
        assert any(re.search(case.says, line) for line in lines), lines
    else:
        assert not any("unknown" in line for line in lines)


def test_the_expected_forecasts_differ(forecaster: Forecaster, expected: Callable[[str], pd.DataFrame]) -> None:
    usual = forecaster.predict(past(), known=future())
    for name, case in GOOD.items():
        changed = not case.equals().equals(future())
        assert changed == (np.abs(expected(name) - usual).to_numpy().max() > 1e-6)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_refused_in_one_line_and_leaves_at_most_a_template(
    name: str, runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = BAD[name]
    assert run_case(case, runs, tmp_path) == (2, set() if case.missing is None else {"out-known.csv"})
    error = one_error(capsys)
    assert re.search(case.refused, error), error
    if case.missing is not None:
        steps, names = case.missing
        template = pd.read_csv(tmp_path / "out-known.csv", index_col="date", parse_dates=True)
        assert list(template.columns) == KNOWN
        assert list(template.index) == list(DATES[list(steps)])
        assert template.isna().equals(template.apply(lambda column: column.isna() | (column.name in names)))
        complete = future().set_index("date").loc[template.index].drop(columns=list(names))
        assert (template[complete.columns].astype(complete.dtypes) == complete).all(axis=None)
