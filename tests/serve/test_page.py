"""The page in Chromium: a file is dropped, a forecast is seen, and its download is the file of the command."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forecast.predict.__main__ import Asked, predict
from tests.conftest import TinyRun
from tests.support.devtools import Tab, tab
from tests.support.service import Client

DONE = "!document.getElementById('forecast').hidden && document.querySelector('#plot canvas') !== null"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def page(service: Client, folder: Path) -> Iterator[Tab]:
    with tab(folder) as opened:
        opened.look(1300, dark=False)
        opened.open(f"http://127.0.0.1:{service.port}/")
        opened.wait("document.getElementById('needs').textContent.includes('load, oil')")
        yield opened


def drop(page: Tab, content: bytes, name: str) -> None:
    """Drop a file on the page."""
    text = json.dumps(base64.b64encode(content).decode())
    page.run(
        f"""(() => {{
        const bytes = Uint8Array.from(atob({text}), (letter) => letter.charCodeAt(0));
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([bytes], {json.dumps(name)}));
        document.getElementById('drop').dispatchEvent(new DragEvent('drop', {{ dataTransfer, bubbles: true }}));
        }})()"""
    )


def choose(page: Tab, model: str, words: str) -> None:
    """Choose a model and wait until the page says what it needs."""
    page.run(f"document.getElementById('model').value = '{model}'")
    page.run("document.getElementById('model').dispatchEvent(new Event('change'))")
    page.wait(f"document.getElementById('needs').textContent.includes({json.dumps(words)})")


def downloaded(page: Tab, folder: Path) -> bytes:
    """Return the file that the button for CSV downloads, and remove it."""
    file = folder / "forecast.csv"
    page.run("document.getElementById('csv').click()")
    until = time.monotonic() + 60
    while not file.is_file():
        assert time.monotonic() < until
        time.sleep(0.1)
    content = file.read_bytes()
    file.unlink()
    return content


def test_a_dropped_file_is_forecast_and_downloaded_as_the_command_writes_it(
    page: Tab, tiny_run: TinyRun, folder: Path, tmp_path: Path
) -> None:
    drop(page, tiny_run.source.read_bytes(), "hours.csv")
    page.wait(DONE)
    understood = page.run("document.getElementById('understood').innerText")
    assert "700 rows, one every hour" in understood
    assert page.run("document.querySelectorAll('#columns tbody tr').length") == 3
    caption = page.run("document.getElementById('caption').textContent")
    assert "load from 2016-07-30 04:00:00" in caption
    assert "beside the seasonal naive (24 h)" in caption
    predict([str(tiny_run.path)], tiny_run.source, tmp_path / "forecast.csv", asked=Asked((80.0, 95.0)))
    assert downloaded(page, folder) == (tmp_path / "forecast.csv").read_bytes()


def test_the_page_fits_narrow_and_dark_windows_and_asks_no_other_host(page: Tab, service: Client) -> None:
    page.wait(DONE)
    backs = set()
    for width in (1300, 400):
        for dark in (False, True):
            page.look(width, dark=dark)
            page.wait(f"Math.abs(document.querySelector('#plot canvas').clientWidth - {width}) < {width / 5}")
            assert page.run("document.documentElement.scrollWidth") <= width
            backs.add(page.run("getComputedStyle(document.body).backgroundColor"))
    assert len(backs) == 2
    asked = [
        event["params"]["request"]["url"] for event in page.events if event["method"] == "Network.requestWillBeSent"
    ]
    own = (f"http://127.0.0.1:{service.port}/", f"blob:http://127.0.0.1:{service.port}/", "data:", "about:")
    assert [address for address in asked if not address.startswith(own)] == []
    assert page.complaints() == []


def test_all_is_reached_and_read_by_keyboard_and_has_a_label(page: Tab) -> None:
    page.wait(DONE)
    page.run("document.activeElement.blur()")
    reached = []
    for _ in range(12):
        page.press("Tab")
        reached.append(page.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"model", "file", "target", "plot", "csv", "xlsx"} <= {*reached}
    page.run("document.getElementById('plot').focus()")
    page.press("ArrowRight")
    assert page.run("document.getElementById('state').textContent").startswith("2016-07-30 04:00:00: ")
    unnamed = page.run(
        "[...document.querySelectorAll('input, select')].filter((one) => !one.labels.length && !one.ariaLabel).length"
    )
    assert unnamed == 0


def test_a_model_without_training_asks_for_the_steps_and_forecasts_the_same_file(
    page: Tab, tiny_run: TinyRun, folder: Path, tmp_path: Path
) -> None:
    page.wait(DONE)  # of a trained model
    assert page.run("document.getElementById('steps').hidden")
    choose(page, "untrained", "none of your data")
    page.wait(f"document.getElementById('horizon').placeholder && {DONE}")
    assert int(page.run("document.getElementById('horizon').placeholder")) == page.run("page.answer.rows.length")
    page.run("document.getElementById('horizon').value = 5")
    page.run("document.getElementById('horizon').dispatchEvent(new Event('change'))")
    page.wait("document.getElementById('caption').textContent.includes('to 2016-07-30 08:00:00') && " + DONE)
    assert page.run("[...document.getElementById('target').options].map((one) => one.value)") == ["load", "oil", "air"]
    predict(["pretrained"], tiny_run.source, tmp_path / "forecast.csv", asked=Asked((80.0, 95.0), horizon=5))
    assert downloaded(page, folder) == (tmp_path / "forecast.csv").read_bytes()
    page.run("document.getElementById('horizon').value = 0")
    page.run("document.getElementById('horizon').dispatchEvent(new Event('change'))")
    page.wait("document.getElementById('error').textContent.includes('horizon 0: must be at least 1')")
    assert page.run("document.getElementById('forecast').hidden")
    page.run("document.getElementById('horizon').value = ''")


def test_missing_known_columns_are_filled_in(page: Tab, panel_run: TinyRun) -> None:
    choose(page, "stores", "sales")
    past = panel_run.table[panel_run.table["sales"].notna() & (panel_run.table["store"] == 4)]
    drop(page, past.to_csv(index=False).encode(), "store.csv")
    page.wait("!document.getElementById('ahead').hidden")
    cells = "document.querySelectorAll('#cells input')"
    assert page.run(f"{cells}.length") == 24
    pasted = json.dumps("0\tb\n" * 12)
    page.run(
        f"""(() => {{
        const clipboardData = new DataTransfer();
        clipboardData.setData('text', {pasted});
        {cells}[0].dispatchEvent(new ClipboardEvent('paste', {{ clipboardData, bubbles: true }}));
        }})()"""
    )
    assert page.run(f"{cells}[23].value") == "b"
    page.run("document.querySelector('#known button').click()")
    page.wait(DONE)
    assert page.run("document.getElementById('caption').textContent").startswith("4: sales from")


def test_a_file_above_the_limit_is_refused_before_it_is_read(page: Tab) -> None:
    page.run("page.model.largest_file = 2 ** 20")
    drop(page, b"1" * (2**20 + 2**19), "large.csv")
    page.wait(
        "document.getElementById('error').textContent.startsWith('large.csv has 1.5 MiB, this page sends at most 1.0')"
    )
    assert page.run("document.getElementById('file').files[0].name") == "large.csv"


def test_a_mistake_is_shown_as_the_line_of_the_command(page: Tab) -> None:
    drop(page, b"date,sales\n2020-01-01,1\n", "short.csv")
    page.wait("document.getElementById('error').textContent.includes('has no column')")
    drop(page, b"x", "picture.png")
    page.wait("document.getElementById('error').textContent.includes(\"Content-Type '.png'\")")


def test_the_requests_are_described_on_a_page_of_their_own(page: Tab, service: Client) -> None:
    page.open(f"http://127.0.0.1:{service.port}/docs")
    page.wait("document.querySelectorAll('section').length === 5")
    assert "POST /forecast" in page.run("document.body.innerText")
