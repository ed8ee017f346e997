"""Files of known covariates: the template that a user fills in, and paths that cannot be used."""

import json
import os
import shlex
from pathlib import Path

import pandas as pd
import pytest

from forecast.common.errors import InputError
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import load
from forecast.predict.known import MissingKnown
from tests.conftest import TinyRun
from tests.support.known import (
    DATES,
    FEW,
    KNOWN,
    check_forecast,
    extended,
    future,
    one_error,
    past,
    replaced,
    run_predict,
    save,
)
from tests.support.small import snapshot, write

SOURCE = past().loc[FEW:]


@pytest.fixture
def template(known_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the template of a forecast without known covariates, with only the last step to fill in."""
    source = extended(11).loc[FEW:]
    assert run_predict(known_run, tmp_path, source) == (2, {"out-known.csv"})
    capsys.readouterr()
    return tmp_path / "out-known.csv"


def fill(path: Path, rows: slice, *names: str) -> None:
    """Fill in some cells of a template."""
    table = pd.read_csv(path, index_col="date", parse_dates=True).astype(object)
    values = future().set_index("date")
    table.loc[DATES[rows], list(names)] = values.loc[DATES[rows], list(names)].astype(object)
    table.to_csv(path)


def test_a_template_that_is_filled_in_gives_the_forecast(
    known_run: Path, tmp_path: Path, template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert template.read_text() == "date,wind speed,promo,kind,tariff\n2024-01-11 11:00:00,,,,\n"
    fill(template, slice(11, 12), *KNOWN)
    assert run_predict(known_run, tmp_path, extended(11).loc[FEW:], template) == (0, {"out.csv", "out.json", "out.png"})
    check_forecast(tmp_path / "out.csv", load(known_run).predict(past(), known=future()))
    assert "unknown" not in capsys.readouterr().out


def test_a_template_with_one_more_row_gives_the_forecast(known_run: Path, tmp_path: Path) -> None:
    assert run_predict(known_run, tmp_path, SOURCE) == (2, {"out-known.csv"})
    path = tmp_path / "out-known.csv"
    fill(path, slice(None), *KNOWN)
    path.write_text(path.read_text() + "2024-01-11 12:00:00,,,,\n")
    assert run_predict(known_run, tmp_path, SOURCE, path) == (0, {"out.csv", "out.json", "out.png"})
    check_forecast(tmp_path / "out.csv", load(known_run).predict(past(), known=future()))


@pytest.mark.parametrize("filled", [[], ["wind speed", "promo"], ["wind speed", "promo", "tariff"]])
def test_a_template_with_empty_cells_is_refused_by_row_and_is_unchanged(
    filled: list[str], known_run: Path, tmp_path: Path, template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(template, slice(11, 12), *filled)
    before = template.read_bytes()
    assert run_predict(known_run, tmp_path, extended(11).loc[FEW:], template) == (2, set())
    column = next(name for name in KNOWN if name not in filled)
    wanted = f"error: {template}, column {column!r}, row 2: no value at 2024-01-11 11:00:00, where the forecast needs"
    assert one_error(capsys).startswith(wanted)
    assert template.read_bytes() == before


def test_a_template_that_was_filled_in_is_not_overwritten(
    known_run: Path, tmp_path: Path, template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = extended(11).loc[FEW:]
    assert run_predict(known_run, tmp_path, source) == (2, set())  # untouched: the same template again
    assert f"fill in {template}, which has these rows" in one_error(capsys)
    fill(template, slice(11, 12), "kind")
    before = snapshot(tmp_path)
    assert run_predict(known_run, tmp_path, source) == (2, set())
    error = one_error(capsys)
    assert error.endswith(
        f"; {template} exists and is unchanged: add --known {template}, or remove it to get a new template"
    )
    assert snapshot(tmp_path) == before


def test_a_template_has_the_values_that_are_there(known_run: Path, tmp_path: Path) -> None:
    known = save(tmp_path / "known.csv", replaced(future, 3, "kind", None)())
    assert run_predict(known_run, tmp_path, SOURCE, known) == (2, {"out-known.csv"})
    template = tmp_path / "out-known.csv"
    fill(template, slice(3, 4), "kind")
    assert run_predict(known_run, tmp_path, SOURCE, template, known) == (0, {"out.csv", "out.json", "out.png"})
    expected = load(known_run).predict(past(), known=future())
    check_forecast(tmp_path / "out.csv", expected)


def test_the_words_to_add_are_quoted_for_the_shell(
    known_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my forecasts"
    folder.mkdir()
    assert run_predict(known_run, folder, SOURCE) == (2, {"out-known.csv"})
    *_, option, path = shlex.split(one_error(capsys))
    assert (option, Path(path)) == ("--known", folder / "out-known.csv")


def test_a_parquet_output_has_a_template_too(known_run: Path, tmp_path: Path) -> None:
    source, output = write(tmp_path / "input.csv", SOURCE), tmp_path / "next.parquet"
    assert predict(["--run", str(known_run), "--input", str(source), "--output", str(output)]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.csv", "next-known.csv"]


def test_the_template_of_an_exception_can_be_filled_in(known_run: Path) -> None:
    forecaster = load(known_run)
    with pytest.raises(MissingKnown, match=r"or train with a shorter horizon$") as caught:
        forecaster.predict(past())
    template = caught.value.template
    assert list(template.columns) == KNOWN
    assert list(template.index) == list(DATES)
    filled = template.fillna(future().set_index("date").astype(object))
    assert forecaster.predict(past(), known=filled).equals(forecaster.predict(past(), known=future()))


@pytest.mark.parametrize("known", ["future.csv", future()["kind"], {"kind": ["a"]}])
def test_known_covariates_of_another_type_are_refused(known: object, known_run: Path) -> None:
    with pytest.raises(
        InputError, match=f"^the known table must be a DataFrame: this is a {type(known).__name__}( |$)"
    ):
        load(known_run).predict(past(), known=known)  # type: ignore[arg-type]


# --- paths


def test_the_input_may_be_named_as_known_too(known_run: Path, tmp_path: Path) -> None:
    assert run_predict(known_run, tmp_path, extended().loc[FEW:], tmp_path / "input.csv")[0] == 0
    check_forecast(tmp_path / "out.csv", load(known_run).predict(past(), known=future()))


def test_known_and_output_are_not_the_same_file(
    known_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = save(tmp_path / "out.csv", future())
    before = known.read_bytes()
    assert run_predict(known_run, tmp_path, SOURCE, known) == (2, set())
    assert one_error(capsys) == f"error: {known}: --output and --known are the same file: choose another output"
    assert known.read_bytes() == before


@pytest.mark.parametrize("kind", ["none", "folder", "pipe", "another format"])
def test_a_known_file_that_cannot_be_read_is_refused(
    kind: str, known_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("known.doc" if kind == "another format" else "known.csv")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "another format":
        path.write_bytes(b"PK")
    assert run_predict(known_run, tmp_path, SOURCE, path) == (2, set())
    causes = {"none": "no such file", "folder": "is a folder", "pipe": "is a pipe", "another format": "only .csv"}
    assert f"{path}" in (error := one_error(capsys))
    assert causes[kind] in error


def test_a_run_without_known_covariates_takes_no_known_file(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = save(tmp_path / "known.csv", future())
    assert run_predict(tiny_run.path, tmp_path, tiny_run.table, known) == (2, set())
    line = f"error: {known}: the model has no known covariates: leave this table out, or name a run that was trained "
    assert one_error(capsys) == f"{line}with data.known_covariates"


# --- numbers unlike those of training


def test_known_numbers_outside_the_range_of_training_are_warned_of_in_words_and_in_the_description(
    known_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = save(tmp_path / "known.csv", replaced(future, 3, "wind speed", 30.0)())
    source = replaced(past, 230, "wind speed", -25.0)().loc[FEW:]
    assert run_predict(known_run, tmp_path, source, table)[0] == 0
    printed = capsys.readouterr().out
    written = json.loads((tmp_path / "out.json").read_text())["warnings"]
    for start in ("the input left", "a known covariate of the horizon left"):
        (text,) = [text for text in written if text.startswith(f"{start} the range of training: ")]
        assert "'wind speed' reaches" in text
        assert f"WARNING: {text}" in printed
    with pytest.warns(UserWarning, match=r"known covariate of the horizon left .* 'wind speed' reaches 30"):
        load(known_run).predict(past(), known=replaced(future, 3, "wind speed", 30.0)())


def test_a_known_number_of_another_unit_is_refused_unless_it_is_accepted(
    known_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = save(tmp_path / "known.csv", replaced(future, 3, "wind speed", -9999.0)())
    assert run_predict(known_run, tmp_path, SOURCE, table) == (2, set())
    error = one_error(capsys)
    assert f"{table}, column 'wind speed', {DATES[3]}: -9999 is " in error
    assert "or accept it with --beyond-training" in error
    source = save(tmp_path / "input.csv", SOURCE)
    words = ["--run", str(known_run), "--input", str(source), "--known", str(table), "--beyond-training"]
    assert predict([*words, "--output", str(tmp_path / "out.csv")]) == 0
    with pytest.raises(InputError, match="wind speed"):
        load(known_run).predict(replaced(past, 230, "wind speed", 4000.0)(), known=future())
    load(known_run).predict(replaced(past, 100, "wind speed", 4000.0)(), known=future())  # before the look-back
