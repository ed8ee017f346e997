"""Intervals from the command line and from Python: equal to the stored scores, described, and refused where unsound."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import forecast
from forecast.common.errors import InputError
from forecast.export.__main__ import main as export
from forecast.predict.__main__ import main as predict
from forecast.predict.ensemble import Ensemble
from forecast.predict.forecaster import Forecaster
from forecast.runs.ensemble import write_ensemble
from tests.conftest import TinyRun
from tests.support.forecasts import dated, edit, expect_one_line, make_adaptive, put
from tests.support.small import CONTEXT, HORIZON, rewrite, snapshot, write

pytestmark = pytest.mark.usefixtures("signals_and_threads")

TARGETS = ["load", "oil"]


def command(run: Path, source: Path, output: Path, *words: str) -> int:
    return predict(["--run", str(run), "--input", str(source), "--output", str(output), *words])


def sidecar(output: Path) -> dict[str, Any]:
    content = json.loads(output.with_suffix(".json").read_text())
    assert isinstance(content, dict)
    return content


def test_the_table_has_the_ends_and_the_naive_forecast_of_each_series(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", "--levels", "80", "95") == 0
    header = (tmp_path / "next.csv").read_text().splitlines()[0].split(",")
    ends = ["lower_80", "upper_80", "lower_95", "upper_95", "naive"]
    assert header == ["date", *TARGETS, *(f"{name}_{end}" for name in TARGETS for end in ends)]
    table = pd.read_csv(tmp_path / "next.csv")
    for name in TARGETS:
        assert (table[f"{name}_lower_95"] < table[f"{name}_lower_80"]).all()
        assert (table[f"{name}_upper_80"] < table[f"{name}_upper_95"]).all()
        np.testing.assert_allclose(table[f"{name}_naive"], tiny_run.table[name].to_numpy()[-24 : -24 + HORIZON])


def test_the_command_and_python_give_the_same_intervals(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", "--levels", "80") == 0
    expected = forecast.load(tiny_run.path).predict(tiny_run.table, levels=[80])
    found = dated(tmp_path / "next.csv")
    pd.testing.assert_frame_equal(found, expected, check_freq=False, check_exact=True)


def test_the_long_table_has_the_values_of_the_wide_one(tiny_run: TinyRun, tmp_path: Path) -> None:
    for layout in ("wide", "long"):
        words = ["--levels", "80", "--layout", layout]
        assert command(tiny_run.path, tiny_run.source, tmp_path / f"{layout}.csv", *words) == 0
        assert sidecar(tmp_path / f"{layout}.csv")["layout"] == layout
    wide, long = (pd.read_csv(tmp_path / f"{layout}.csv") for layout in ("wide", "long"))
    assert list(long) == ["date", "series", "value", "lower_80", "upper_80", "naive"]
    assert len(long) == HORIZON * len(TARGETS)
    for name in TARGETS:
        part = long[long["series"] == name].reset_index(drop=True)
        assert list(part["date"]) == list(wide["date"])
        np.testing.assert_array_equal(part["value"], wide[name])
        for column in ("lower_80", "upper_80", "naive"):
            np.testing.assert_array_equal(part[column], wide[f"{name}_{column}"])


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_parquet_has_the_values_of_csv(tiny_run: TinyRun, tmp_path: Path, layout: str) -> None:
    words = ["--levels", "95", "--layout", layout]
    for suffix in ("csv", "parquet"):
        assert command(tiny_run.path, tiny_run.source, tmp_path / f"next.{suffix}", *words) == 0
    parquet, text = pd.read_parquet(tmp_path / "next.parquet"), pd.read_csv(tmp_path / "next.csv", dtype=str)
    assert [parquet.index.name, *parquet] == list(text)
    assert [str(date) for date in parquet.index] == list(text["date"])
    for name in parquet:
        assert list(parquet[name]) == list(text[name] if name == "series" else text[name].map(float))


def test_the_sidecar_describes_run_input_levels_and_calibration(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", "--levels", "80") == 0
    content = sidecar(tmp_path / "next.csv")
    from forecast.common.files import sha256

    assert content["models"] == [
        {
            "path": str(tiny_run.path),
            "weights_sha256": sha256(tiny_run.path / "model.safetensors"),
            "start_from": None,
            "attention": None,
        }
    ]
    assert content["input"]["sha256"] == sha256(tiny_run.source)
    assert content["input"]["rows"] == len(tiny_run.table)
    assert content["forecast"]["rows"] == HORIZON
    assert content["forecast"]["series"] == TARGETS
    assert content["levels"] == [80]
    assert content["value"] == "point forecast"
    assert content["naive"] == "seasonal naive (24 h)"
    assert content["columns"] == (tmp_path / "next.csv").read_text().splitlines()[0].split(",")
    calibration = content["intervals"]["calibration"]
    held_out = tiny_run.result["validation"]["intervals"]
    assert calibration["method"] == "cross-fitting"
    assert calibration["windows"] == tiny_run.result["calibration"]["windows"] == 60
    assert calibration["held_out_coverage"]["80"] == held_out["coverage_80"]
    assert calibration["test_coverage"]["80"] == tiny_run.result["test"]["intervals"]["coverage_80"]
    forecaster = forecast.load(tiny_run.path)
    assert set(forecaster.warnings(forecaster.read(tiny_run.source))) <= set(content["warnings"])


def test_a_forecast_without_levels_reads_no_calibration(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr("forecast.predict.facts.calibration_of_run", refuse)
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv") == 0
    assert sidecar(tmp_path / "next.csv")["intervals"] is None
    with pytest.raises(AssertionError, match="read"):
        command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", "--levels", "80")


def test_costs_are_the_quantile_of_their_ratio(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert command(tiny_run.path, tiny_run.source, tmp_path / "cost.csv", "--cost", "over=1", "under=4") == 0
    assert command(tiny_run.path, tiny_run.source, tmp_path / "level.csv", "--quantile", "0.8") == 0
    assert (tmp_path / "cost.csv").read_bytes() == (tmp_path / "level.csv").read_bytes()
    assert sidecar(tmp_path / "cost.csv")["value"] == "quantile 0.8"
    table = forecast.load(tiny_run.path).predict(tiny_run.table, levels=[60])
    upper = table[[f"{name}_upper_60" for name in TARGETS]]
    np.testing.assert_allclose(dated(tmp_path / "cost.csv").to_numpy(), upper.to_numpy(), rtol=1e-12)


def test_the_ensemble_has_the_mean_of_the_ends(tiny_run: TinyRun, second_run: Path, tmp_path: Path) -> None:
    words = ["--run", str(second_run), "--levels", "80"]
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", *words) == 0
    members = [forecast.load(run).predict(tiny_run.table, levels=[80]) for run in (tiny_run.path, second_run)]
    decimals = forecast.load(tiny_run.path).decimals
    mean = (members[0] + members[1]) / 2
    mean = mean.round({column: decimals[column.partition("_")[0]] for column in mean})
    np.testing.assert_allclose(dated(tmp_path / "next.csv"), mean, rtol=1e-12)
    together = Ensemble.load([tiny_run.path, second_run]).predict(tiny_run.table, levels=[80])
    np.testing.assert_allclose(together, mean, rtol=1e-12)
    assert len(sidecar(tmp_path / "next.csv")["intervals"]["calibration"]) == 2


@pytest.mark.exhaustive
@pytest.mark.usefixtures("graph_once")
def test_an_exported_file_has_the_intervals_of_its_run(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert export(["--run", str(tiny_run.path), "--output", str(tmp_path / "model.pt2")]) == 0
    words = ["--input", str(tiny_run.source), "--levels", "80", "95"]
    assert predict(["--model", str(tmp_path / "model.pt2"), *words, "--output", str(tmp_path / "file.csv")]) == 0
    assert predict(["--run", str(tiny_run.path), *words, "--output", str(tmp_path / "run.csv")]) == 0
    np.testing.assert_allclose(dated(tmp_path / "file.csv"), dated(tmp_path / "run.csv"), rtol=1e-6)
    file, run = (sidecar(tmp_path / f"{name}.csv") for name in ("file", "run"))
    assert file["intervals"] == run["intervals"]
    assert file["models"][0]["weights_sha256"] == run["models"][0]["weights_sha256"]


# --- files of a run


@pytest.mark.parametrize(
    "name",
    ["forecast.csv", "result.csv", "manifest.csv", "config.csv", "errors.parquet", "job.csv"],
)
def test_no_file_of_a_run_is_replaced(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    copied = Path(shutil.copytree(tiny_run.path, tmp_path / "copied"))
    before = snapshot(copied)
    assert command(copied, tiny_run.source, copied / name) == 2
    assert expect_one_line(capsys).endswith("is a file of the run in its folder: choose another --output\n")
    monkeypatch.chdir(copied)
    assert command(Path(), tiny_run.source, Path(name)) == 2
    assert snapshot(copied) == before
    assert command(copied, tiny_run.source, copied / "next.csv") == 0
    assert command(copied, tiny_run.source, tmp_path / name.replace("parquet", "csv")) == 0


def test_no_file_of_an_ensemble_or_of_a_run_is_replaced(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "seed-1")
    write_ensemble(tmp_path, ["seed-1"], {})
    assert command(tmp_path, tiny_run.source, tmp_path / "ensemble.csv") == 2
    assert expect_one_line(capsys).startswith(f"error: {tmp_path / 'ensemble.json'}: is a file of the run")


# --- the printed line


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"windows": 60, "stored": 60}, "60 validation windows; their coverage is not measured"),
        (
            {"windows": 2785, "stored": 929, "held_out_coverage": {"80": 0.804}, "test_coverage": {"80": 0.672}},
            "929 of 2,785 validation windows; 80 % covered 67.2 % of the test split",
        ),
        (
            {"windows": 60, "held_out_coverage": {"80": 0.81, "95": 0.6}},
            "60 validation windows; 80 % covered 81.0 % of held-out validation",
        ),
        (
            {"windows": 60, "method": "in-sample"},
            "60 validation windows, which also selected the model; their coverage is not measured",
        ),
        (
            {"windows": 60, "method": "in-sample", "test_coverage": {"80": 0.974}},
            "60 validation windows, which also selected the model; 80 % covered 97.4 % of the test split",
        ),
    ],
)
def test_the_line_says_what_calibrated_the_intervals(
    tiny_run: TinyRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    facts: dict[str, Any],
    words: str,
) -> None:
    """Without a known coverage of 80 and 95 %, as of other trained quantiles, cross-fitting is not in-sample."""
    copied = Path(shutil.copytree(tiny_run.path, tmp_path / "copied"))
    manifest = json.loads((copied / "manifest.json").read_text())
    calibration = {"method": "cross-fitting", "explanation": "", "held_out_coverage": {"80": None, "95": None}}
    rewrite(copied / "manifest.json", {**manifest, "calibration": {**calibration, **facts}})
    assert command(copied, tiny_run.source, tmp_path / "next.csv", "--levels", "50") == 0
    assert f"50 % intervals: calibrated on {words};" in capsys.readouterr().out


def test_a_test_coverage_far_from_the_level_is_a_warning(
    tiny_run: TinyRun, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copied, put("validation_mse", value={}))
    edit(copied, put("calibration", "test_coverage", value={"80": 0.672, "95": 0.94}))
    for words, warns in ((["--levels", "80", "95"], True), (["--levels", "95"], False), ([], False)):
        assert command(copied, tiny_run.source, tmp_path / "next.csv", *words) == 0
        found = warnings_of(tmp_path / "next.csv", capsys)
        assert found == ["80 % intervals were too narrow on the test split: they covered 67.2 %"][: int(warns)]


# --- adaptive


def test_the_line_and_the_sidecar_say_which_form_the_intervals_have(
    tiny_run: TinyRun, copied: Path, second_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    useless = "plain form: past errors of this series do not predict the next ones"
    few = "plain form: the input has fewer than 12 rows with earlier forecasts, after training and one look-back"
    short = write(tmp_path / "short.csv", tiny_run.table.tail(CONTEXT + 3))
    make_adaptive(copied)
    for runs, source, end, form in (
        ([copied], tiny_run.source, "as wide as the errors of 84 earlier forecasts say", "adaptive"),
        ([tiny_run.path], tiny_run.source, useless, useless),
        ([copied], short, few, few),
        ([copied, second_run], tiny_run.source, f"as wide as the errors of 84 earlier forecasts say; {useless}",
         ["adaptive", useless]),
    ):  # fmt: skip
        words = [word for run in runs[1:] for word in ("--run", str(run))]
        assert command(runs[0], source, tmp_path / "next.csv", *words, "--levels", "80") == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("80 % intervals")]
        assert line.endswith(f"; {end}")
        assert sidecar(tmp_path / "next.csv")["intervals"]["form"] == form


@pytest.mark.usefixtures("graph_once")
def test_an_exported_model_says_that_it_uses_the_plain_form(
    tiny_run: TinyRun, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(["--run", str(make_adaptive(copied)), "--output", str(tmp_path / "model.pt2")]) == 0
    words = ["--model", str(tmp_path / "model.pt2"), "--input", str(tiny_run.source), "--levels", "80"]
    assert predict([*words, "--output", str(tmp_path / "file.csv")]) == 0
    assert "; plain form: an exported model has no past errors\n" in capsys.readouterr().out
    plain = forecast.load(tiny_run.path).predict(tiny_run.table, levels=[80])
    np.testing.assert_allclose(dated(tmp_path / "file.csv"), plain, rtol=1e-6)


def test_an_ensemble_says_the_worst_coverage_of_its_members_and_how_many_are_in_sample(
    tiny_run: TinyRun, second_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(second_run, tmp_path / "copied"))
    manifest = json.loads((copied / "manifest.json").read_text())
    narrow = {**manifest["calibration"], "method": "in-sample", "test_coverage": {"80": 0.411}}
    rewrite(copied / "manifest.json", {**manifest, "calibration": narrow})
    words = ["--run", str(copied), "--levels", "80"]
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", *words) == 0
    printed = capsys.readouterr().out
    assert (
        "runs, 1 of them calibrated on windows that also selected the model; at worst, 80 % covered 41.1 %" in printed
    )
    assert "WARNING: 80 % intervals were too narrow on the test split: they covered 41.1 %" in printed


# --- limits


@pytest.mark.usefixtures("graph_once")
def test_no_value_and_no_end_of_a_run_a_file_or_an_ensemble_crosses_a_limit(
    tiny_run: TinyRun, copied: Path, second_run: Path, tmp_path: Path
) -> None:
    table = tiny_run.table.assign(load=tiny_run.table["load"].clip(lower=970))
    lowest = forecast.load(tiny_run.path).predict(table, levels=[80])[["load", "load_lower_80"]].min()
    assert (lowest < 970).all()
    limits = {"lower": [970.0, None], "upper": [None, None], "period": 24}
    other = Path(shutil.copytree(second_run, tmp_path / "other"))
    for run in (copied, other):
        edit(run, put("limits", value=limits))
    found = forecast.load(copied).predict(table, levels=[80])
    assert found[["load", "load_lower_80"]].to_numpy().min() == 970
    assert forecast.load(copied, other).predict(table, levels=[80])["load_lower_80"].min() == 970
    assert export(["--run", str(copied), "--output", str(tmp_path / "model.pt2")]) == 0
    np.testing.assert_allclose(forecast.load(tmp_path / "model.pt2").predict(table, levels=[80]), found, rtol=1e-6)
    edit(copied, put("limits", "lower", value=[970.0]))
    with pytest.raises(InputError, match="the limits do not fit the targets"):
        forecast.load(copied)


# --- refusals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--levels", "0"], "levels: 0 is not a level in per cent: choose one above 0 and below 100"),
        (["--levels", "100"], "levels: 100 is not a level in per cent: choose one above 0 and below 100"),
        (["--levels", "nan"], "levels: nan is not a level in per cent: choose one above 0 and below 100"),
        (["--levels", "80", "80.0"], "levels: 80 is given twice: give each level once"),
        (["--levels", "80", "80.00000001"], "levels: 80 is given twice: give each level once"),
        (["--cost", "over=1e308", "under=1e-308"], "cost: over=1e+308 under=1e-308: one is too small beside the other: "
         "leave out --cost"),
        (["--levels", "99"], "levels: the 99 % interval (quantile 0.005) needs the scores of 99 held-out windows, the "
         "run has 60: choose one nearer to the median, or train with a longer validation split"),
        (["--quantile", "1"], "quantile: 1 must be above 0 and below 1"),
        (["--cost", "over=1", "below=2"], "--cost over=1 below=2: give both costs, such as --cost over=1 under=4"),
        (["--cost", "over=0", "under=2"], "cost: over=0 must be a positive number"),
        (["--adaptive"], "adaptive: there are no intervals to adapt: add levels, such as 80"),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_answered_is_refused_before_a_file_is_written(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", *words) == 2
    assert expect_one_line(capsys) == f"error: {message}\n"
    assert snapshot(tmp_path) == {}


def test_levels_under_another_attention_are_refused(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--levels", "80", "--attention", "mean"]
    assert command(tiny_run.path, tiny_run.source, tmp_path / "next.csv", *words) == 2
    assert "--attention" in expect_one_line(capsys)
    assert snapshot(tmp_path) == {}


def test_a_column_with_the_name_of_an_end_is_refused_in_the_wide_table_only(tiny_run: TinyRun) -> None:
    forecaster = forecast.load(tiny_run.path)
    from forecast.predict.forecast import Question

    answer = forecaster.answer(forecaster.read(tiny_run.source), Question((80.0,)))
    renamed = {"oil": "load_lower_80"}
    from forecast.predict.forecast import Forecast

    other = Forecast(
        answer.values.rename(columns=renamed),
        {
            level: (low.rename(columns=renamed), high.rename(columns=renamed))
            for level, (low, high) in answer.ends.items()
        },
    )
    with pytest.raises(
        InputError, match=r"^'load_lower_80' is the name of a column .*: choose --layout long, or rename"
    ):
        other.wide()
    assert set(other.long()["series"]) == {"load", "load_lower_80"}
    plain = Forecast(answer.values.rename(columns={"oil": "load_naive"}))
    with pytest.raises(InputError, match=r"^'load_naive' .* column of the data and of the naive forecast:"):
        plain.wide(plain.values)


def test_a_time_column_with_the_name_of_a_column_is_refused_in_the_long_table_only(tiny_run: TinyRun) -> None:
    from forecast.predict.forecast import Question

    forecaster = forecast.load(tiny_run.path)
    answer = forecaster.answer(forecaster.read(tiny_run.source), Question())
    answer.values.index.name = "value"
    with pytest.raises(InputError, match=r"^'value' is the name of the time column .*: choose --layout wide$"):
        answer.long()
    assert answer.wide().index.name == "value"


def test_the_hash_is_that_of_the_file_that_was_read(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may grow while its forecast is computed."""
    from forecast.common.files import sha256

    source = Path(shutil.copy(tiny_run.source, tmp_path / "growing.csv"))
    before, original = sha256(source), Forecaster.answer

    def answer(*arguments: Any) -> Any:
        with source.open("a") as file:
            file.write("\n")
        return original(*arguments)

    monkeypatch.setattr(Forecaster, "answer", answer)
    assert command(tiny_run.path, source, tmp_path / "next.csv") == 0
    assert sha256(source) != before
    assert sidecar(tmp_path / "next.csv")["input"]["sha256"] == before


# --- warnings


def warnings_of(output: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the warnings in the sidecar, which are those that were printed."""
    printed = [line.removeprefix("WARNING: ") for line in capsys.readouterr().out.splitlines() if "WARNING" in line]
    assert sidecar(output)["warnings"] == printed
    return printed


@pytest.mark.parametrize(
    ("change", "beginnings"),
    [
        (lambda load: load + 400, ["the input left the range of training: 'load' reaches", "the level of the look-"]),
        (lambda load: 1000 + (load - 1000) * 0.02, ["the spread of the look-back (its standard deviation) has "]),
        (lambda load: load, []),
    ],
)  # fmt: skip
def test_an_input_unlike_training_is_a_warning(
    tiny_run: TinyRun,
    copied: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Any,
    beginnings: list[str],
) -> None:
    edit(copied, put("validation_mse", value={}))
    table = tiny_run.table.copy()
    table.loc[700 - CONTEXT :, "load"] = change(table.loc[700 - CONTEXT :, "load"])
    assert command(copied, write(tmp_path / "in.csv", table), tmp_path / "next.csv") == 0
    found = warnings_of(tmp_path / "next.csv", capsys)
    assert len(found) == len(beginnings)
    assert all(text.startswith(beginning) for text, beginning in zip(found, beginnings, strict=True))


def test_a_baseline_that_was_better_on_validation_is_named(
    tiny_run: TinyRun, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(copied, put("validation_mse", "linear", value=tiny_run.result["validation"]["scaled"]["mse"] / 2))
    assert command(copied, tiny_run.source, tmp_path / "next.csv") == 0
    (text,) = warnings_of(tmp_path / "next.csv", capsys)
    assert "was better than the model on validation" in text
    assert "ridge" in text
