import base64
import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from forecast.common.text import holds_steering
from forecast.report import content
from forecast.report import html as module
from forecast.report.content import make_content
from forecast.report.html import page, text
from forecast.report.tables import FoldingTable
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import no_pictures, result_of, write_run
from tests.support.browser import open_page

LOOK = """<img id="foreign" src="https://example.invalid/picture.png"><script>
addEventListener("load", () => {
  const table = document.querySelector(".sorts"), heads = [...table.querySelectorAll("th")];
  const head = heads.find(each => each.textContent === "test MSE");
  const shown = () => [...table.tBodies[0].rows].map(row => row.cells[head.cellIndex].textContent);
  const before = shown(); head.querySelector("button").click(); const up = shown(); head.click(); const down = shown();
  const widths = [...document.querySelectorAll("figure img")].map(each => each.naturalWidth);
  const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const visible = () => heads.filter(each => each.offsetWidth > 0).map(each => each.textContent);
  const box = document.querySelector(".unfold");
  box.focus();
  const focused = document.activeElement === box;
  const folded = visible(); box.click(); const unfolded = visible();
  const others = [...document.querySelectorAll(".unfold")].slice(1).some(each => each.checked);
  document.body.dataset.seen = JSON.stringify({before, up, down, widths, over, folded, unfolded, focused, others});
});
</script>"""


def look_into(document: str, script: str, folder: Path, *options: str) -> tuple[list[str], Any]:
    """Open a page without its content policy but with a script; return the requests and what the script saw."""
    document = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", document)
    path = folder / "looked-at.html"
    path.write_text(document.replace("</body>", f"{script}</body>"), encoding="utf-8")
    opened = open_page(path, folder, *options)
    (attribute,) = re.findall(r'data-seen="([^"]*)"', opened.document)
    return opened.requests, json.loads(unescape(attribute))


def pictures(document: str) -> list[Image.Image]:
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', document)
    return [Image.open(io.BytesIO(base64.b64decode(image))).convert("RGB") for image in images]


@pytest.mark.slow
def test_the_page_opens_without_a_network_and_requests_nothing(made: Made, tmp_path: Path) -> None:
    opened = open_page(made.folder / "report.html", tmp_path)
    assert (opened.requests, opened.blocked) == ([], [])
    assert len(pictures(opened.document)) == 7
    assert "0.3750" in opened.document


def test_the_answer_and_a_picture_come_first(made: Made) -> None:
    document = (made.folder / "report.html").read_text(encoding="utf-8")
    places = [document.index(words) for words in ('class="answer"', "<figure>", "Details</h3>", "Results</h3>")]
    assert places == sorted(places)
    text = (made.folder / "report.md").read_text(encoding="utf-8")
    places = [text.index(words) for words in (made.chapter.answer[-1], "![", "### Details", "### Results")]
    assert places == sorted(places)


def test_names_between_backticks_are_code_in_the_page(made: Made) -> None:
    document = (made.folder / "report.html").read_text(encoding="utf-8")
    sentence = next(each for each in made.chapter.answer if "`probsparse`" in each)
    assert re.sub(r"`(\w+)`", r"<code>\1</code>", sentence) in unescape(document)
    assert "&lt;code&gt;" not in document


@pytest.mark.slow
def test_pictures_are_shown_tables_sort_columns_unfold_and_the_page_fits_a_telephone(
    made: Made, tmp_path: Path
) -> None:
    """A foreign picture shows that a request would be noticed."""
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    requests, seen = look_into(text, LOOK, tmp_path, "--window-size=420,900")
    assert requests == ["https://example.invalid/picture.png"]
    assert seen["widths"] == [676] * 7
    assert seen["over"] <= 0

    def numbers(cells: list[str]) -> list[float]:
        return [float(cell.split()[0]) for cell in cells]

    assert numbers(seen["up"]) == sorted(numbers(seen["before"]))
    assert numbers(seen["down"]) == sorted(numbers(seen["before"]), reverse=True)
    assert numbers(seen["before"]) != sorted(numbers(seen["before"]))
    results = next(part for part in made.chapter.parts if isinstance(part, FoldingTable))
    assert seen["focused"]
    assert seen["folded"] == [heading for heading in results.headings if heading not in results.folded]
    assert seen["unfolded"] == list(results.headings)
    assert not seen["others"]


def test_folded_columns_are_a_second_table_in_markdown(made: Made) -> None:
    text = (made.folder / "report.md").read_text(encoding="utf-8")
    tables = [part for part in made.chapter.parts if isinstance(part, FoldingTable)]
    assert [table.title for table in tables] == ["Results", "Compared window by window"]
    for table in tables:
        assert set(table.folded) < set(table.headings)
        shown = [heading for heading in table.headings if heading not in table.folded]
        assert f"| {' | '.join(shown)} |" in text
        assert f"| {' | '.join([*table.headings[: table.keys], *table.folded])} |" in text


STYLE = Path(module.__file__).with_name("page.css").read_text(encoding="utf-8")


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.1)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_light_and_dark(scheme: str) -> None:
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{[^}]*\}", STYLE))
    assert light.keys() == dark.keys()
    colours = light if scheme == "light" else dark
    for ground in ("paper", "soft"):
        for ink in ("ink", "mark", "flag", "good", "bad"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


COLOURS = """<script>addEventListener("load", () => {
  const ground = element => getComputedStyle(element).backgroundColor;
  document.body.dataset.seen = JSON.stringify([ground(document.body), ground(document.querySelector("figure"))]);
});</script>"""


@pytest.mark.slow
@pytest.mark.parametrize(("option", "page_colour"), [("1", "rgb(255, 255, 255)"), ("0", "rgb(22, 24, 28)")])
def test_pictures_have_a_white_card_in_light_and_dark(
    made: Made, tmp_path: Path, option: str, page_colour: str
) -> None:
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    _, seen = look_into(text, COLOURS, tmp_path, f"--blink-settings=preferredColorScheme={option}")
    assert seen == [page_colour, "rgb(255, 255, 255)"]


WIDTHS = """<script>addEventListener("load", () => {
  for (const box of document.querySelectorAll(".unfold")) box.checked = true;
  const over = [...document.querySelectorAll(".wide")].map(table => table.scrollWidth - table.clientWidth);
  document.body.dataset.seen = JSON.stringify(over);
});</script>"""


@pytest.mark.slow
def test_no_column_is_cut_off_at_1300_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all possible columns unfolded and long numbers."""
    for seed in (1, 2):
        result = result_of(
            "probsparse", 2880, seed, mse=0.4 + seed / 100, mixing_weight=0.37, steps=12_468, best_step=11_390,
            train=123.4, inference=1234.5, memory=12345.6,
        )  # fmt: skip
        for row in (result, *result["baselines"].values()):
            for part in ("validation", "test"):
                row[part]["original"] |= {"mase": 1.234, "wape": 12.34, "smape": 23.45}
        result["speed"]["fit_seconds"] = 7384
        write_run(tmp_path / "runs" / str(seed), result)
    monkeypatch.setattr(content, "draw_pictures", no_pictures)
    text = page(make_content("mine", read_runs([tmp_path / "runs"])))
    assert "best step" in text
    _, seen = look_into(text, WIDTHS, tmp_path, "--window-size=1300,900")
    assert set(seen) == {0}


def test_the_page_has_no_control_characters_of_a_folder_or_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "draw_pictures", no_pictures)
    for mechanism in ("full", "linear"):
        write_run(tmp_path / f"{mechanism}\x1b[31m\u202e", result_of(mechanism))
    made = make_content("a\x1bb", read_runs([tmp_path]))
    for document in (page(made), text(made)):
        assert not holds_steering(document)
    assert r"\x1b[31m" in page(made)


@pytest.mark.slow
def test_requests_of_the_page_count_and_those_of_the_browser_do_not(tmp_path: Path) -> None:
    addresses = ["https://example.invalid/a.png", "https://update.googleapis.com/b.png", "https://www.google.com/c.png"]
    page = tmp_path / "page.html"
    page.write_text("".join(f'<img src="{address}">' for address in addresses), encoding="utf-8")
    assert open_page(page, tmp_path).requests == addresses


def test_the_content_policy_blocks_everything_outside_the_page(made: Made) -> None:
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert unescape(policy).startswith("default-src 'none'; img-src data:;")
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text)
    assert not re.findall(r"@import|url\(", text)


def test_every_arm_has_its_own_colour_in_the_pictures(made: Made) -> None:
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    for picture in pictures(text):
        colours = {colour for _, colour in picture.getcolors(2**20) or []}
        assert {(0, 0, 0), (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= _near(colours)


def _near(colours: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return the colours of the palette that a picture has, with or without a transparency of a tenth."""
    palette = [(0, 0, 0), (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)]
    return {
        own for own in palette if any(max(abs(a - b) for a, b in zip(own, near, strict=True)) < 30 for near in colours)
    }


@pytest.mark.parametrize("mark", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a|b `c` & d"])
def test_names_from_folders_and_files_are_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str) -> None:
    monkeypatch.setattr(content, "draw_pictures", no_pictures)
    result = result_of(config={"data.name": mark, "loss": mark})
    result["command"] = f"python train.py {mark}"
    write_run(tmp_path / "run", result)
    write_run(tmp_path / "linear", result_of("linear", config={"data.name": mark, "loss": mark}, train=900.0))
    made = make_content(mark, read_runs([tmp_path]))
    document = page(made)
    assert document.count("<script>") == 1
    assert "<img src=x" not in document
    if "|" in mark:
        assert "&amp; d" in document
        assert r"a\|b" in text(made)


def test_a_new_report_removes_only_the_pictures_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "draw_pictures", no_pictures)
    runs, folder = tmp_path / "runs", tmp_path / "report"
    for name in ("full", "mean"):
        write_run(runs / name, result_of(name, 96))
    folder.mkdir()
    for file in ("report-2025.png", "report-old.png"):
        (folder / file).write_bytes(b"a picture")
    (folder / "report.md").write_text("![of the last report](report-old.png)\n")
    written = module.write_report(folder, "a report", read_runs([runs]))
    own = {picture.file for chapter in written.chapters for picture in chapter.pictures}
    assert {path.name for path in folder.glob("*.png")} == own | {"report-2025.png"}
