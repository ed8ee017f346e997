"""The programs of the pages on exported models run as they are, and forecast like `predict`."""

import http.server
import re
import threading
import time
import urllib.error
import urllib.request
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import forecast
from forecast.export.__main__ import main as export
from tests.conftest import TinyRun
from tests.support.small import ROOT


def program(page: str) -> str:
    """Return the longest Python block of a page."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    return max(re.findall(r"```python\n(.*?)```", text, re.DOTALL), key=len)


@pytest.fixture(scope="module")
def folder(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for exported models, whose graphs are captured once."""
    return tmp_path_factory.mktemp("exported")


def exported(tiny_run: TinyRun, folder: Path, name: str) -> Path:
    """Export the tiny run, unless the folder has the file."""
    if not (folder / name).is_file():
        assert export(["--run", str(tiny_run.path), "--output", str(folder / name)]) == 0
    return folder / name


@pytest.mark.slow
@pytest.mark.parametrize("absent", [[], [-3]])
def test_the_program_without_the_package_forecasts_like_predict(
    absent: list[int], folder: Path, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    model = forecast.load(exported(tiny_run, folder, "model.onnx"))
    monkeypatch.chdir(folder)
    table = tiny_run.table.drop(tiny_run.table.index[absent])
    table.to_csv("my.csv", index=False)
    found: dict[str, Any] = {}
    exec(program("export.md"), found)
    filled = table.set_index("date").asfreq("h").ffill()
    expected = model.predict(filled, levels=[80])
    pd.testing.assert_frame_equal(
        found["table"][list(expected.columns)],
        expected,
        check_freq=False,
        check_names=False,
        check_index_type=False,
        rtol=1e-4,
    )


@pytest.mark.slow
def test_a_served_model_answers_a_table_and_refuses_one_in_words(
    folder: Path, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = forecast.load(exported(tiny_run, folder, "model.pt2"))
    monkeypatch.chdir(folder)
    servers: list[http.server.ThreadingHTTPServer] = []

    class Server(http.server.ThreadingHTTPServer):
        def __init__(self, address: tuple[str, int], handler: Any) -> None:
            super().__init__((address[0], 0), handler)  # a free port
            servers.append(self)

    monkeypatch.setattr(http.server, "ThreadingHTTPServer", Server)
    monkeypatch.setattr(http.server.BaseHTTPRequestHandler, "log_message", lambda *_: None)
    thread = threading.Thread(target=exec, args=(program("serve.md"), {}), daemon=True)
    thread.start()
    while not servers:
        assert thread.is_alive()
        time.sleep(0.01)
    address = f"http://127.0.0.1:{servers[0].server_port}"
    try:
        with urllib.request.urlopen(address, tiny_run.table.to_csv(index=False).encode()) as answer:
            table = pd.read_csv(StringIO(answer.read().decode()), index_col="date", parse_dates=True)
        expected = model.predict(tiny_run.table, levels=[80])
        pd.testing.assert_frame_equal(table, expected, check_freq=False, check_index_type=False)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address, tiny_run.table[:5].to_csv(index=False).encode())
        assert refused.value.code == 400
        assert "rows" in refused.value.read().decode()
    finally:
        servers[0].shutdown()
        servers[0].server_close()
        thread.join(10)
