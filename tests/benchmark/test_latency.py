from pathlib import Path

import pytest
import torch

from forecast.benchmark.__main__ import main
from forecast.benchmark.latency import Form, rows_of, table_of
from forecast.predict import exported as extra
from forecast.runs.run import Architecture, Run
from tests.conftest import TinyRun
from tests.support.small import read_rows

QUICK = ["--repetitions", "3", "--seconds", "0", "--device", "cpu", "--threads", "1"]


pytestmark = pytest.mark.usefixtures("signals_and_threads")


@pytest.mark.exhaustive
def test_each_form_is_timed_for_one_window_and_a_batch_with_the_same_forecasts(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORECAST_DATA_DIR", str(tiny_run.source.parent))  # files in other folders are not read
    words = ["--run", str(tiny_run.path), "--batch", "3", "--forms", "eager", "pt2", "predict"]
    assert main(["latency", *QUICK, *words, "--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latency.csv", "latency.md"]
    rows = read_rows(tmp_path / "latency.csv")
    assert [(row["form"], row["batch"]) for row in rows] == [
        (form, batch) for batch in "13" for form in ("eager", "pt2", "predict")
    ]
    for row in rows[:-1]:
        assert int(row["repetitions"]) == 3
        assert 0 < float(row["shortest_ms"]) <= float(row["p50_ms"]) <= float(row["p95_ms"])
        assert float(row["windows_per_s"]) == pytest.approx(1e3 * int(row["batch"]) / float(row["p50_ms"]))
        assert float(row["difference"]) < 1e-5
        assert (row["threads"], row["torch"], row["rows_of"]) == ("1", torch.__version__, str(tiny_run.source))
    assert rows[-1]["p50_ms"] == ""
    assert rows[-1]["skipped"] == "forecasts only one table at a time"
    table, printed = (tmp_path / "latency.md").read_text(encoding="utf-8"), capsys.readouterr().out
    title = "48 steps of 3 channels to 12 of 2"
    assert title in table
    assert title in printed
    assert "\n| pt2 | 3 | " in table
    assert printed.splitlines()[-1] == f"{tmp_path}: latency.csv, latency.md"


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("form", "package"), [("compiled", "torch"), ("onnx", "onnxruntime")])
def test_compiled_and_onnx_forecast_the_same(form: str, package: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    pytest.importorskip(package)
    words = ["--run", str(tiny_run.path), "--batch", "1", "--forms", form, "--quiet"]
    assert main(["latency", *QUICK, *words, "--output", str(tmp_path)]) == 0
    rows = [row for row in read_rows(tmp_path / "latency.csv") if row["form"] == form]
    assert rows
    for row in rows:
        assert row["skipped"] == ""
        assert float(row["difference"]) < 1e-4
        assert row["p50_ms"]


def test_a_form_without_its_packages_is_skipped_with_a_reason(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda _: None)
    words = ["--run", str(tiny_run.path), "--batch", "1", "--forms", "onnx", "eager", "--quiet"]
    assert main(["latency", *QUICK, *words, "--output", str(tmp_path)]) == 0
    onnx, eager = read_rows(tmp_path / "latency.csv")
    assert 'pip install -e ".[export]"' in onnx["skipped"]
    assert eager["p50_ms"]
    assert "onnx, batch 1: " in (tmp_path / "latency.md").read_text(encoding="utf-8")


def test_the_title_counts_targets_and_past_covariates(tiny_run: TinyRun) -> None:
    architecture = Architecture.from_dict(Run.open(tiny_run.path).manifest()["architecture"])
    assert table_of([], architecture).title == "48 steps of 3 channels to 12 of 2"


def test_percentiles_are_over_all_passes() -> None:
    seconds = [value / 1e3 for value in range(101)]
    forecast, scale = torch.zeros(2, 3, 1), torch.tensor([2.0])
    form = Form(lambda: forecast, 1.5, forecast)
    (row,) = rows_of({"eager": form}, {"eager": seconds}, 2, forecast + 1, scale, {"machine": "here"})
    assert (row["p50_ms"], row["p95_ms"]) == (pytest.approx(50), pytest.approx(95))
    assert (row["windows_per_s"], row["difference"], row["machine"]) == (pytest.approx(40), 0.5, "here")


def test_quantiles_are_compared_with_quantiles_and_a_point_forecast_with_their_median() -> None:
    reference, scale = torch.zeros(2, 4, 3, 9), torch.tensor([1.0, 2.0, 4.0])
    quantiles, points = reference.clone(), torch.zeros(2, 4, 3)
    quantiles[..., 2, 8] = 4
    points[..., 1] = 6
    forms = {"pt2": Form(forecast=quantiles), "predict": Form(forecast=points)}
    rows = rows_of(forms, {}, 2, reference, scale, {})
    assert [row["difference"] for row in rows] == [1.0, 3.0]


def test_the_forecast_of_a_table_is_compared_with_that_of_its_own_window() -> None:
    form = Form(forecast=torch.ones(1, 4, 3), reference=torch.ones(1, 4, 3))
    (row,) = rows_of({"predict": form}, {}, 1, torch.zeros(1, 4, 3), torch.ones(3), {})
    assert row["difference"] == 0


@pytest.mark.slow
def test_a_batch_larger_than_the_data_is_refused(
    tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(tiny_run.path), "--batch", "700", "--output", str(tmp_path / "new")]
    assert main(["latency", *QUICK, *words]) == 2
    assert "--batch 700: " in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
