"""Answers of the service: the bytes of the command, what is understood, and one line for each mistake."""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forecast.predict.__main__ import Asked, predict
from forecast.serve.bodies import ARROW, WORKBOOK
from forecast.tables.writing import write_table
from tests.conftest import TinyRun
from tests.support.service import CSV, JSON, Client

ASKED = Asked((80.0, 95.0))
LEVELS = "levels=80&levels=95"


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as rows of JSON."""
    rows: list[dict[str, Any]] = json.loads(table.assign(date=table["date"].astype(str)).to_json(orient="records"))
    return rows


def file_of(content: bytes, kind: str = "text/csv") -> dict[str, str]:
    """Return a file within a JSON body."""
    return {"type": kind, "base64": base64.b64encode(content).decode()}


@pytest.fixture(scope="module")
def command_file(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that the command writes, beside its form in Arrow."""
    folder = tmp_path_factory.mktemp("command")
    for ending in ("csv", "arrow"):
        predict([str(tiny_run.path)], tiny_run.source, folder / f"forecast.{ending}", asked=ASKED)
    return folder / "forecast.csv"


def test_twenty_clients_at_a_time_get_the_bytes_of_the_command(
    service: Client, tiny_run: TinyRun, command_file: Path
) -> None:
    body = tiny_run.source.read_bytes()
    with ThreadPoolExecutor(20) as clients:
        answers = list(clients.map(lambda _: service.post(f"/forecast?{LEVELS}", body, CSV), range(20)))
    assert {answer.status for answer in answers} == {200}
    assert {answer.body for answer in answers} == {command_file.read_bytes()}
    assert "80 % and 95 % intervals" in json.loads(answers[0].headers["Forecast-Notes"])[0]


def test_rows_a_file_and_arrow_give_the_same_forecast(
    service: Client, tiny_run: TinyRun, command_file: Path, tmp_path: Path
) -> None:
    csv = {**JSON, "Accept": "text/csv"}
    for table in ({"rows": records(tiny_run.table)}, {"file": file_of(tiny_run.source.read_bytes())}):
        answer = service.post("/forecast", {**table, "levels": [80, 95], "model": "hours"}, csv)
        assert answer.body == command_file.read_bytes(), answer.body
    write_table(tmp_path / "hours.arrow", tiny_run.table, index=False)
    answer = service.post(f"/forecast?{LEVELS}", (tmp_path / "hours.arrow").read_bytes(), {"Content-Type": ARROW})
    assert answer.body == command_file.with_suffix(".arrow").read_bytes()
    rows = service.post("/forecast", {"rows": records(tiny_run.table), "levels": [80, 95]}).content["rows"]
    pd.testing.assert_frame_equal(pd.DataFrame(rows), pd.read_csv(command_file))


def test_a_workbook_is_read_and_written(service: Client, tiny_run: TinyRun, command_file: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "hours.xlsx", tiny_run.table, index=False)
    answer = service.post(f"/forecast?{LEVELS}", (tmp_path / "hours.xlsx").read_bytes(), {"Content-Type": WORKBOOK})
    book = pd.read_excel(io.BytesIO(answer.body), sheet_name=None, engine="calamine", header=None)
    assert list(book) == ["forecast", "scores"]
    made = book["forecast"].set_axis(book["forecast"].iloc[0], axis=1).iloc[1:]
    expected = pd.read_csv(command_file)["load"]
    assert made["load"].astype(float).to_numpy() == pytest.approx(expected.to_numpy())


def test_a_long_table_is_forecast_with_its_known_columns(service: Client, panel_run: TinyRun, tmp_path: Path) -> None:
    predict([str(panel_run.path)], panel_run.source, tmp_path / "all.csv", asked=Asked((80.0,), ids=("3", "7")))
    query = "/forecast?model=stores&levels=80&ids=3&ids=7"
    answer = service.post(query, panel_run.source.read_bytes(), CSV)
    assert answer.body == (tmp_path / "all.csv").read_bytes(), answer.body[:300]
    past = panel_run.table[panel_run.table["sales"].notna()]
    body = {"rows": records(past), "model": "stores", "ids": [3, 7], "levels": [80]}
    missing = service.post("/forecast", body)
    assert missing.status == 422
    assert "are missing ('promo', 'kind')" in missing.error
    assert {"store", "date", "promo", "kind"} <= {*missing.content["known"][0]}
    known = panel_run.table.loc[panel_run.table["sales"].isna(), ["store", "date", "promo", "kind"]]
    filled = service.post("/forecast", {**body, "known": records(known)}, {**JSON, "Accept": "text/csv"})
    assert filled.body == answer.body


@pytest.mark.parametrize("kind", ["csv", "arrow"])
def test_a_forecast_without_training_is_the_file_of_the_command(service: Client, tmp_path: Path, kind: str) -> None:
    source, output = tmp_path / "days.csv", tmp_path / f"next.{kind}"
    source.write_bytes(DAYS)
    predict(["pretrained"], source, output, asked=Asked((80.0,), quantile=0.7, horizon=5))
    query, accept = "/forecast?model=untrained&levels=80&quantile=0.7&horizon=5", {"csv": "text/csv", "arrow": ARROW}
    answer = service.post(query, DAYS, {**CSV, "Accept": accept[kind]})
    assert answer.body == output.read_bytes(), answer.body[:300]
    assert json.loads(answer.headers["Forecast-Notes"])[-1].startswith("without training: pretrained network")
    rows = json.loads(pd.read_csv(io.BytesIO(DAYS)).to_json(orient="records"))
    body = {"rows": rows, "model": "untrained", "levels": [80], "quantile": 0.7, "horizon": 5}
    assert service.post("/forecast", body, {**JSON, "Accept": accept[kind]}).body == answer.body


def test_a_model_without_training_says_what_it_needs_and_understands_any_table(service: Client) -> None:
    facts = service.ask("GET", "/model?model=untrained").content
    assert {*facts} == {*service.ask("GET", "/model").content}
    assert (facts["horizon"], facts["largest_horizon"], facts["least_rows"]) == (None, 10_000, 3)
    seen = service.post("/table?model=untrained&horizon=4", DAYS, CSV).content
    assert (seen["time_column"], seen["targets"], seen["horizon"], seen["step"]) == ("date", ["load"], 4, "day")
    assert len(seen["past"]) == 12
    own = service.post("/table?model=untrained", DAYS, CSV).content["horizon"]
    assert len(service.post("/forecast", {**ROWS, "model": "untrained"}).content["rows"]) <= own


def test_a_forecast_without_training_of_too_many_steps_is_refused(
    service: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecast.serve import untrained

    monkeypatch.setattr(untrained, "MOST_WORK", 500)
    for path in ("/forecast", "/table"):
        answer = service.post(f"{path}?model=untrained&horizon=5", DAYS, CSV)
        assert (answer.status, "at most 500 in a request: ask for fewer steps" in answer.error) == (422, True)


def test_what_is_understood_has_columns_step_gaps_and_the_end_of_the_targets(
    service: Client, tiny_run: TinyRun, panel_run: TinyRun
) -> None:
    seen = service.post("/table", tiny_run.source.read_bytes(), CSV).content
    assert (seen["rows"], seen["step"], seen["last"]) == (700, "hour", str(tiny_run.table["date"].iloc[-1]))
    assert {each["name"]: each["role"] for each in seen["columns"]} == {
        "load": "forecast", "oil": "forecast", "air": "past"
    }  # fmt: skip
    assert seen["past"][-1]["load"] == tiny_run.table["load"].iloc[-1]
    assert seen["past"][-1]["date"] == seen["last"]
    many = service.post("/table?model=stores", panel_run.source.read_bytes(), CSV).content
    assert many["series"] == 10
    assert many["past"][0]["store"] == "1"


def test_the_facts_of_a_model_have_its_needs_and_scores(service: Client, tiny_run: TinyRun) -> None:
    facts = service.ask("GET", "/model").content
    assert (facts["models"], facts["targets"]) == (["hours", "stores", "untrained"], ["load", "oil"])
    assert (facts["horizon"], facts["largest_horizon"]) == (12, 12)
    assert facts["scores"]["model"]["scaled"] == tiny_run.result["test"]["scaled"]
    assert "seasonal_naive" in facts["scores"]
    assert facts["levels"] == [80, 95]
    assert service.ask("GET", "/model?model=stores").content["id_columns"] == ["store"]


def test_the_metrics_count_requests_by_path_and_status(service: Client) -> None:
    service.ask("GET", "/nothing/of/mine")
    text = service.ask("GET", "/metrics").body.decode()
    assert 'forecast_requests_total{path="other",status="404"}' in text
    assert "nothing" not in text
    counts = [int(line.split()[-1]) for line in text.splitlines() if line.startswith("forecast_seconds_bucket")]
    assert counts == sorted(counts)


def test_the_description_of_all_requests_is_read_without_a_network(service: Client) -> None:
    paths = service.ask("GET", "/openapi.json").content["paths"]
    assert {"/forecast", "/table", "/model", "/health", "/metrics"} == {*paths}
    assert {"application/json", "text/csv"} <= {*paths["/forecast"]["post"]["requestBody"]["content"]}
    for path in ("/", "/docs", "/page.js", "/docs.js"):
        page = service.ask("GET", path).body
        assert b"//" not in page.replace(b"http://www.w3.org", b"").replace(b"://127", b"") or path.endswith(".js")
        assert b"https:" not in page


DAYS = b"date,load\n" + b"".join(b"2020-01-%02d,%d\n" % (day, day % 7) for day in range(1, 31))
ROWS = {"rows": [{"date": f"2020-01-0{day}", "load": day} for day in range(1, 9)]}

MISTAKES: list[tuple[str, str, Any, dict[str, str], int, str]] = [
    ("POST", "/forecast", b"date,load\n2020-01-01,1\n", CSV, 422, "the table has no column 'oil'"),
    ("POST", "/forecast", b"", CSV, 422, "the table is empty"),
    ("POST", "/forecast", b"\x00\x01" * 50, CSV, 422, "the table"),
    ("POST", "/forecast", b"ARROW1" + b"\xff" * 500, {"Content-Type": ARROW}, 422, "the table cannot be read as Arrow"),
    ("POST", "/forecast", b"PK\x03\x04" + b"\0" * 300, {"Content-Type": WORKBOOK}, 422, "the table cannot be read as"),
    ("POST", "/forecast", b"x", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "-H 'Content-Type: text/"),
    ("POST", "/forecast", b"x", {}, 415, "Content-Type"),
    ("POST", "/forecast", b"x", {**CSV, "Content-Encoding": "gzip"}, 415, "send it unpacked"),
    ("POST", "/forecast", b"x", {**CSV, "Accept": "image/png"}, 406, "Accept"),
    ("POST", "/forecast?levels=0", b"x", CSV, 422, "levels: 0 is not a level"),
    ("POST", "/forecast?levels=high", b"x", CSV, 400, "levels.0: Input should be a valid number"),
    ("POST", "/forecast?steps=9", b"x", CSV, 400, "steps: Extra inputs are not permitted"),
    ("POST", "/forecast?horizon=9", b"x", CSV, 422, "horizon 9: the model hours has its own, 12 steps"),
    ("POST", "/table?horizon=9", b"x", CSV, 422, "horizon 9: the model hours has its own, 12 steps"),
    ("POST", "/forecast?horizon=1.5", b"x", CSV, 400, "horizon: Input should be a valid integer"),
    ("POST", "/forecast?model=other", b"x", CSV, 404, "choose one of hours, stores, untrained"),
    ("POST", "/forecast?ids=1", b"x", CSV, 422, "ids: the model has one series"),
    ("POST", "/forecast?levels=" + "&levels=".join(map(str, range(1, 30))), b"x", CSV, 400, "levels"),
    ("POST", "/forecast", b"{", JSON, 400, "the body is not JSON that is read"),
    ("POST", "/forecast", b"[" * 100_000, JSON, 400, "levels deep"),
    ("POST", "/forecast", b'{"rows": [{"a": 1' + b"0" * 5000 + b"}]}", JSON, 400, "the body is not JSON"),
    ("POST", "/forecast", b'{"rows": [{"\\ud800": 1}]}', JSON, 400, "the body is not JSON"),
    ("POST", "/forecast", {"rows": [{"date": [1]}]}, JSON, 400, "row 1, column 'date': must be a number"),
    ("POST", "/forecast", {"rows": []}, JSON, 400, "the table: has no rows"),
    ("POST", "/forecast", {"rows": [], "file": file_of(b"x")}, JSON, 400, "give either rows or file"),
    ("POST", "/forecast", {"file": {"type": "text/csv", "base64": "?"}}, JSON, 400, "file.base64"),
    ("POST", "/forecast", {"file": file_of(b"x", "text/html")}, JSON, 415, "Content-Type 'text/html'"),
    ("POST", "/forecast?levels=80", {"rows": [], "levels": [80]}, JSON, 400, "levels: is in the query and in the body"),
    ("POST", "/forecast", {"rows": [{str(k): 1} for k in range(20_001)]}, JSON, 413, "20,001 columns exceed the limit"),
    ("POST", "/forecast?model=untrained&horizon=0", DAYS, CSV, 422, "horizon 0: must be at least 1 and at most 10,000"),
    ("POST", "/forecast?model=untrained&horizon=10001", DAYS, CSV, 422, "horizon 10001: must be at least 1"),
    ("POST", "/table?model=untrained&horizon=10001", DAYS, CSV, 422, "horizon 10001: must be at least 1"),
    ("POST", "/forecast?model=untrained&levels=99", DAYS, CSV, 422, "outside the trained quantiles"),
    ("POST", "/forecast?model=untrained&ids=1", DAYS, CSV, 422, "ids: not with the model untrained"),
    ("POST", "/forecast?model=untrained&beyond_training=1", DAYS, CSV, 422, "beyond_training: not with the model"),
    ("POST", "/forecast?model=untrained", {**ROWS, "known": [{"a": 1}]}, JSON, 422, "known: not with the model"),
    ("POST", "/forecast?model=untrained", b"date,load\n2020-01-01,1\n", CSV, 422, "the table"),
    ("GET", "/forecast", None, {}, 405, "GET /forecast: Method Not Allowed"),
    ("GET", "/../../etc/passwd", None, {}, 404, "Not Found"),
    ("GET", "/page.js/../../served.py", None, {}, 404, "Not Found"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "words"),
    MISTAKES,
    ids=[str(place) for place in range(len(MISTAKES))],
)
def test_a_mistake_is_one_line_with_its_status(
    service: Client, method: str, path: str, body: Any, headers: dict[str, str], status: int, words: str
) -> None:
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body)
    answer = service.ask(method, path, sent, headers)
    assert (answer.status, words in answer.error) == (status, True), answer.body[:500]
    assert "\n" not in answer.error
    assert tempfile.gettempdir() not in answer.error


def test_no_request_writes_a_file_but_in_the_temporary_folder_of_a_guarded_reader(
    service: Client, tiny_run: TinyRun
) -> None:
    written: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching or not arguments:
            return
        path, changes = arguments[0], event in ("os.mkdir", "os.rename", "os.symlink", "os.link", "os.truncate")
        opened = event == "open" and isinstance(arguments[1], str) and {*arguments[1]} & {*"wax+"}
        if changes or (opened and not isinstance(path, int)):
            written.append(str(path))

    sys.addaudithook(watch)
    body = tiny_run.source.read_bytes()
    for kind in ("text/csv", WORKBOOK, ARROW, "application/json"):
        service.post("/forecast", body, {**CSV, "Accept": kind})
        service.post("/forecast", {"file": file_of(body)}, {**JSON, "Accept": kind})
    service.post("/table", body, CSV)
    assert service.post("/forecast?model=untrained", DAYS, CSV).status == 200
    assert written == []
    service.post("/forecast", b"ARROW1", {"Content-Type": ARROW})
    watching = False
    assert [path for path in written if not path.startswith((tempfile.gettempdir(), "/dev/"))] == []
    assert any(path.startswith(tempfile.gettempdir()) for path in written)
