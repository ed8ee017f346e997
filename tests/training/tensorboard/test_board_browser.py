"""A run in a real TensorBoard server and in a real browser."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image

from tests.conftest import TinyRun
from tests.support.devtools import tab

pytestmark = pytest.mark.slow

SECONDS = 180
"""Maximum wait for the server: a busy machine needs a minute."""


@pytest.fixture(scope="session")
def address(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a TensorBoard server that has loaded the run."""
    log = tmp_path_factory.mktemp("tensorboard") / "log"
    words = ["--logdir", str(tiny_run.path.parent), "--host", "127.0.0.1", "--port", "0"]
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-m", "tensorboard.main", *words], stdout=file, stderr=file)
    try:
        url = wait_for(lambda: [word for word in log.read_text().split() if word.startswith("http://127")], log)[0]
        wait_for(lambda: "test/mse" in tags(url, "scalars", tiny_run), log)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def wait_for(condition: Any, log: Path) -> Any:
    until = time.monotonic() + SECONDS
    while not (result := condition()):
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.2)
    return result


def ask(address: str, path: str, content: Any = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    request = Request(f"{address}data/plugin/{path}", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        read = answer.read()
    return json.loads(read) if answer.headers.get_content_type() == "application/json" else read


def tags(address: str, plugin: str, run: TinyRun) -> list[str]:
    return list(ask(address, f"{plugin}/tags").get(run.path.name, []))


def points(address: str, plugin: str, run: TinyRun, tag: str) -> Any:
    return ask(address, f"{plugin}/{plugin}?{urlencode({'run': run.path.name, 'tag': tag})}")


def test_every_kind_of_data_of_a_run_is_served(address: str, tiny_run: TinyRun) -> None:
    (*_, (_, step, value)) = points(address, "scalars", tiny_run, "test/mse")
    assert (step, value) == (40, pytest.approx(tiny_run.result["test"]["scaled"]["mse"], rel=1e-6))
    assert {"1_forecasts/validation", "attention/encoder.0.self", "probe/heads"} < set(
        tags(address, "images", tiny_run)
    )
    for entry in points(address, "images", tiny_run, "attention/encoder.0.self"):
        assert ask(address, f"images/individualImage?{entry['query']}").startswith(b"\x89PNG")
    ((_, step, bins),) = points(address, "histograms", tiny_run, "validation/residuals")
    windows = tiny_run.result["data"]["windows"]["validation"]
    assert step == 40
    assert sum(count for *_, count in bins) == windows * 12 * 2
    (text,) = points(address, "text", tiny_run, "1_summary")
    assert "<table>" in text["text"]
    statuses = ["STATUS_SUCCESS", "STATUS_UNKNOWN", "STATUS_RUNNING"]
    query = {"allowedStatuses": statuses, "startIndex": 0, "sliceSize": 10}
    (line,) = ask(address, "hparams/session_groups", query)["sessionGroups"]
    assert line["hparams"]["attention.name"] == "full"
    assert line["sessions"][0]["status"] == "STATUS_SUCCESS"
    columns = ask(address, "hparams/experiment", {"experimentName": "x", "hparamsLimit": 1000})
    assert [each["displayName"] for each in columns["hparamInfos"]] == ["attention", "look-back", "options"]
    metrics = [each["name"]["tag"] for each in columns["metricInfos"]]
    assert metrics[:3] == ["test/mse", "test/mae", "speed/train_windows_per_s"]
    assert [each["displayName"] for each in columns["metricInfos"][:2]] == ["test MSE", "test MAE"]
    assert {"val/mse", "test/skill", "test_baseline/last_value_mse"} < set(metrics)


def test_forecasts_and_the_summary_come_first(address: str, tiny_run: TinyRun) -> None:
    """The pages of pictures and of texts are sorted by name."""
    assert min(tags(address, "images", tiny_run)) == "1_forecasts/validation"
    assert min(tags(address, "text", tiny_run)) == "1_summary"


def test_the_table_of_runs_shows_scores_on_a_narrow_page(address: str) -> None:
    """1,300 pixels, from the column widths of TensorBoard, since its table elements cannot be inspected."""
    columns = ask(address, "hparams/experiment", {"experimentName": "x", "hparamsLimit": 1000})
    options, trial, button, column, shown_at_most = 265, 160, 100, 160, 5
    before = options + trial + button + column * min(shown_at_most, len(columns["hparamInfos"]))
    assert before + column <= 1300


def test_a_browser_shows_curves_pictures_and_the_histogram(address: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    chosen = urlencode({"tagFilter": "^val/mse|^attention/encoder.0|residuals"})
    picture = tmp_path / "page.png"
    with tab(tmp_path) as page:
        page.look(1400, dark=False, height=1600)
        page.open(f"{address}?{chosen}#timeseries")
        for element, tag in (
            ("scalar-card", "val/mse"),
            ("image-card", "attention/encoder.0.self"),
            ("histogram-card", "validation/residuals"),
        ):
            page.wait(f"document.querySelector('{element} [title=\"{tag}\"]') !== null")
        page.wait("[...document.querySelectorAll('image-card img')].some(each => each.complete && each.naturalWidth)")
        page.picture(picture)
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    viridis = np.array([[68, 1, 84], [33, 145, 140], [253, 231, 36]])  # only the map has these colors
    assert all((np.abs(pixels - color).sum(-1) < 40).sum() > 20 for color in viridis)
