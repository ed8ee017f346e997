import base64
import io
import json
import re
from html import unescape
from pathlib import Path

import pytest
from PIL import Image

from forecast.report import content
from forecast.report.content import make_content
from forecast.report.html import page
from forecast.runs.read import read_runs
from tests.report.conftest import Made
from tests.report.made import no_pictures, result_of, write_run
from tests.support.browser import open_page

CLICKS = """<img id="foreign" src="https://example.invalid/picture.png"><script>
addEventListener("load", () => {
  const table = document.querySelector(".sorts"), heads = [...table.querySelectorAll("th")];
  const head = heads.find(each => each.textContent === "test MSE");
  const shown = () => [...table.tBodies[0].rows].map(row => row.cells[head.cellIndex].textContent);
  const before = shown(); head.click(); const up = shown(); head.click(); const down = shown();
  const widths = [...document.querySelectorAll("figure img")].map(each => each.naturalWidth);
  const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.body.dataset.found = JSON.stringify({before, up, down, widths, over});
});
</script>"""


def pictures(document: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', document)
    return [Image.open(io.BytesIO(base64.b64decode(each))).convert("RGB") for each in found]


def test_the_page_opens_without_a_network_and_asks_for_nothing(made: Made, tmp_path: Path) -> None:
    opened = open_page(made.folder / "report.html", tmp_path)
    assert (opened.requests, opened.blocked) == ([], [])
    assert len(pictures(opened.document)) == 7
    assert "0.3750" in opened.document


def test_names_between_backticks_are_code_in_the_page(made: Made) -> None:
    document = (made.folder / "report.html").read_text(encoding="utf-8")
    sentence = next(each for each in made.chapter.answer if "`probsparse`" in each)
    assert re.sub(r"`(\w+)`", r"<code>\1</code>", sentence) in unescape(document)
    assert "&lt;code&gt;" not in document


def test_its_pictures_are_shown_its_tables_sort_and_it_is_no_wider_than_a_telephone(made: Made, tmp_path: Path) -> None:
    """Without its policy, so that a script may look; a foreign picture shows that a request would be seen."""
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    changed = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace(
        "</body>", f"{CLICKS}</body>"
    )
    (tmp_path / "looked-at.html").write_text(changed, encoding="utf-8")
    opened = open_page(tmp_path / "looked-at.html", tmp_path, "--window-size=420,900")
    assert opened.requests == ["https://example.invalid/picture.png"]
    (attribute,) = re.findall(r'data-found="([^"]*)"', opened.document)
    found = json.loads(unescape(attribute))
    assert found["widths"] == [676] * 7
    assert found["over"] <= 0

    def numbers(cells: list[str]) -> list[float]:
        return [float(cell.split()[0]) for cell in cells]

    assert numbers(found["up"]) == sorted(numbers(found["before"]))
    assert numbers(found["down"]) == sorted(numbers(found["before"]), reverse=True)
    assert numbers(found["before"]) != sorted(numbers(found["before"]))


WIDTHS = """<script>addEventListener("load", () => {
  const over = [...document.querySelectorAll(".wide")].map(table => table.scrollWidth - table.clientWidth);
  document.body.dataset.found = JSON.stringify(over);
});</script>"""


def test_no_column_is_cut_off_at_1300_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all columns that a study may have, and long numbers in them."""
    for seed in (1, 2):
        result = result_of(
            "probsparse", 2880, seed, mse=0.4 + seed / 100, share=0.37, steps=12_468, best_step=11_390,
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
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", f"{WIDTHS}</body>")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    opened = open_page(tmp_path / "page.html", tmp_path, "--window-size=1300,900")
    (attribute,) = re.findall(r'data-found="([^"]*)"', opened.document)
    assert set(json.loads(unescape(attribute))) == {0}


def test_each_request_of_a_page_counts_and_none_of_the_browser(tmp_path: Path) -> None:
    addresses = ["https://example.invalid/a.png", "https://update.googleapis.com/b.png", "https://www.google.com/c.png"]
    page = tmp_path / "page.html"
    page.write_text("".join(f'<img src="{address}">' for address in addresses), encoding="utf-8")
    assert open_page(page, tmp_path).requests == addresses


def test_the_policy_blocks_what_is_not_in_the_page(made: Made) -> None:
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert unescape(policy).startswith("default-src 'none'; img-src data:;")
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text)
    assert not re.findall(r"@import|url\(", text)


def test_pictures_hold_every_arm_in_a_colour_of_its_own(made: Made) -> None:
    text = (made.folder / "report.html").read_text(encoding="utf-8")
    for picture in pictures(text):
        colours = {colour for _, colour in picture.getcolors(2**20) or []}
        assert {(0, 0, 0), (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= _near(colours)


def _near(colours: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return those of the palette that a picture has, drawn a tenth transparent or not."""
    palette = [(0, 0, 0), (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)]
    return {
        own for own in palette if any(max(abs(a - b) for a, b in zip(own, each, strict=True)) < 30 for each in colours)
    }


@pytest.mark.parametrize("mark", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a|b `c` & d"])
def test_names_from_folders_and_files_are_text_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    monkeypatch.setattr(content, "draw_pictures", no_pictures)
    result = result_of(config={"data.name": mark, "loss": mark})
    result["command"] = f"python train.py {mark}"
    write_run(tmp_path / "run", result)
    made = page(make_content(mark, read_runs([tmp_path])))
    assert made.count("<script>") == 1
    assert "<img src=x" not in made
