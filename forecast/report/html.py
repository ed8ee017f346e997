"""The report as one HTML page, as Markdown and as CSV."""

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from forecast.common.files import look_up, replacing
from forecast.common.tables import Table, inert, to_csv
from forecast.report.budget import passes, windows_seen
from forecast.report.comparisons import Baseline, Comparison, baselines_of
from forecast.report.content import Chapter, Content, Picture, make_content
from forecast.report.costs import COSTS, TIMES, Cost, basis, front, rounds_cheaper, times_cheaper, verdict
from forecast.report.sections import Setting
from forecast.report.tables import COMMANDS, EQUAL, LEFT_OUT, number_paths
from forecast.runs.reading import Found


def text(content: Content) -> str:
    """Return the Markdown; its pictures are the files beside it."""
    pieces = [f"# {inert(content.title)}", ""]
    for chapter in content.chapters:
        pieces += [f"## {inert(chapter.section.title)}", "", *(f"{inert(sentence)}\n" for sentence in chapter.answer)]
        for part in chapter.parts:
            if isinstance(part, Table):
                pieces.append(part.to_markdown(level=3))
            else:
                pieces += [*(f"![{inert(picture.shows)}]({picture.file})" for picture in part), ""]
    if content.left_out is not None:
        pieces.append(content.left_out.to_markdown())
    return "\n".join(pieces)


def rows(content: Content) -> list[dict[str, Any]]:
    """Return a row a setting and a baseline: all numbers with their spreads, verdicts, commands."""
    found: list[dict[str, Any]] = []
    for chapter in content.chapters:
        found += [_setting_row(chapter, setting) for setting in chapter.section.settings]
        found += [_baseline_row(chapter, baseline) for baseline in baselines_of(chapter.section)]
    columns = list(dict.fromkeys(column for row in found for column in row))
    return [{column: _written(row.get(column)) for column in columns} for row in found]


def _written(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _setting_row(chapter: Chapter, setting: Setting) -> dict[str, Any]:
    first = setting.runs[0]
    row: dict[str, Any] = {
        "data": chapter.section.title,
        "row": "model",
        "mechanism": setting.arm,
        "look_back": setting.look_back,
        "n": len(setting.runs),
        "seeds": " ".join(map(str, setting.seeds)),
        "conditions": setting.conditions,
        "windows_seen": windows_seen(first),
        "passes": passes(first),
        "test_windows": first.number("data.windows.test"),
    }
    for column, path in number_paths(chapter.section).items():
        row |= {column: setting.mean(path), f"{column}_sd": setting.spread(path)}
    for cost in COSTS:
        row[f"{cost.key}_cost"] = cost.of(setting)
        row[f"not_dominated_{cost.key}"] = setting.key in front(chapter.section, cost)
    reference = chapter.comparisons.reference.get(setting.key)
    for cost in TIMES:
        row |= _time_cells(cost, setting, None if reference is None else reference.against)
    for name, made in (
        ("full", chapter.comparisons.reference),
        ("mean", chapter.comparisons.control),
        ("best", chapter.comparisons.with_best),
    ):
        row |= dict(_comparison_cells(name, made.get(setting.key)))
    return {**row, "commands": "; ".join(run.result["command"] for run in setting.runs)}


def _time_cells(cost: Cost, setting: Setting, against: Setting | None) -> dict[str, Any]:
    """Return how long it took in turn, whether the machine was busy, and the verdict beside the reference."""
    rounds = cost.in_turn(setting)
    clean = rounds[np.isfinite(rounds)]
    ratios = np.empty(0) if against is None else rounds_cheaper(cost, setting, against)
    return {
        f"{cost.key}_disturbed": cost.is_disturbed(setting),
        f"{cost.key}_in_turn": float(np.median(clean)) if len(clean) else None,
        f"{cost.key}_rounds": len(clean),
        f"{cost.key}_against_full": None if against is None else verdict(cost, setting, against),
        f"{cost.key}_against_full_times": None if against is None else times_cheaper(cost, setting, against),
        f"{cost.key}_against_full_low": float(ratios.min()) if len(ratios) else None,
        f"{cost.key}_against_full_high": float(ratios.max()) if len(ratios) else None,
        f"{cost.key}_against_full_basis": None if against is None else basis(cost, setting, against),
    }


def _comparison_cells(name: str, comparison: Comparison | None) -> Iterator[tuple[str, Any]]:
    low, high = (None, None) if comparison is None else comparison.range_per_cent
    yield f"against_{name}_percent", None if comparison is None else comparison.per_cent
    yield f"against_{name}_low", low
    yield f"against_{name}_high", high
    yield f"against_{name}_level", None if comparison is None else comparison.level
    yield f"against_{name}", None if comparison is None else comparison.verdict


def _baseline_row(chapter: Chapter, baseline: Baseline) -> dict[str, Any]:
    paths = number_paths(chapter.section)
    scores = {column: look_up(baseline.scores, path) for column, path in paths.items()}
    told = {"data": chapter.section.title, "row": baseline.name, "mechanism": baseline.label, "skill": baseline.skill}
    return told | {column: value for column, value in scores.items() if value is not None}


CSS = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --line: #d0d0d0; --soft: #f3f4f6; --mark: #0b5394;
  --flag: #8a4b00; --good: #0b5394; --bad: #a61c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181c; --line: #3d4149; --soft: #22252b;
  --mark: #8ab8f5; --flag: #ffb961; --good: #8ab8f5; --bad: #ff9f8a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; margin: .3rem 0; } h2 { font-size: 1.3rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
code { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace;
  font-size: .92em; overflow-wrap: anywhere; }
.answer { border-left: .3rem solid var(--mark); background: var(--soft); padding: .6rem 1rem; }
.answer p { margin: .35rem 0; } .answer p:first-child { font-size: 1.12rem; font-weight: 600; }
.wide { overflow-x: auto; border: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
.sorts td { white-space: nowrap; } .sorts td:is(:first-child, :last-child) { white-space: normal; }
.sorts td:first-child { min-width: 7rem; }
.sorts :is(th, td):first-child { position: sticky; left: 0; background: var(--paper); }
th { background: var(--soft); position: sticky; top: 0; vertical-align: bottom; }
.words th, .words td, th:first-child, td:first-child { text-align: left; }
.sorts th { cursor: pointer; } .sorts th[aria-sort]::after { content: " \\2193"; }
.sorts th[aria-sort="ascending"]::after { content: " \\2191"; }
.flag { color: var(--flag); font-weight: 700; } .good { color: var(--good); font-weight: 700; }
.bad { color: var(--bad); font-weight: 700; }
ul.notes { font-size: .87rem; padding-left: 1.2rem; margin: .4rem 0; } nav a { margin-right: 1rem; }
a { color: var(--mark); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
figure { margin: 0; background: #ffffff; border: 1px solid var(--line); border-radius: .4rem; padding: .4rem; }
figure img { width: 100%; height: auto; display: block; }
"""
"""Readable in light and dark, at the width of a telephone, and on paper; the pictures keep their white ground."""

SCRIPT = """
for (const head of document.querySelectorAll(".sorts th")) head.addEventListener("click", () => {
  const table = head.closest("table"), body = table.tBodies[0], place = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "ascending";
  const value = row => row.cells[place].textContent.replace(/,/g, "").replace("\\u2212", "-").trim();
  const rows = [...body.rows].map((row, order) => ({ row, order, text: value(row), number: parseFloat(value(row)) }));
  rows.sort((one, two) => {
    const empty = (one.text === "" || one.text === "-") - (two.text === "" || two.text === "-");
    if (empty) return empty;
    const numbers = !isNaN(one.number) && !isNaN(two.number);
    const gap = numbers ? one.number - two.number : one.text.localeCompare(two.text);
    return (down ? -gap : gap) || one.order - two.order;
  });
  for (const each of table.querySelectorAll("th")) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows.map(each => each.row));
});
"""
"""Sorts a table by the column whose heading is clicked; without it the tables stand as they were written."""


OF_WORDS = (EQUAL, COMMANDS, LEFT_OUT)
"""Tables whose cells are words: they stand to the left."""

MARKS = {"differs": "flag", "better": "good", "worse": "bad"}
"""Cells that are coloured too; what they say is in their words."""

_CODE = re.compile(r"`([^`]*)`")


def page(content: Content) -> str:
    """Return the page; its own policy lets a browser load nothing and run nothing but what is in it."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    chapters = list(content.chapters)
    links = "".join(
        f'<a href="#{_anchor(place)}">{_text(each.section.title)}</a>' for place, each in enumerate(chapters)
    )
    body = [
        f"<h1>{_text(content.title)}</h1>",
        f"<nav>{links}</nav>" if len(chapters) > 1 else "",
        *(_chapter(place, each) for place, each in enumerate(chapters)),
        "" if content.left_out is None else f"<section>{_table(content.left_out)}</section>",
    ]
    return "\n".join([
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{_plain(content.title)}</title><style>{CSS}</style></head><body>',
        *(line for line in body if line),
        f"<script>{SCRIPT}</script>",
        "</body></html>",
        "",
    ])  # fmt: skip


def _chapter(place: int, chapter: Chapter) -> str:
    sentences = "".join(f"<p>{_text(sentence)}</p>" for sentence in chapter.answer)
    lines = [
        f'<section id="{_anchor(place)}"><h2>{_text(chapter.section.title)}</h2>',
        f'<div class="answer">{sentences}</div>',
        *(_table(part) if isinstance(part, Table) else _pictures(part) for part in chapter.parts),
        "</section>",
    ]
    return "\n".join(lines)


def _table(table: Table) -> str:
    kind = "words" if table.title in OF_WORDS else "sorts"
    head = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in table.headings)
    rows = "\n".join(f"<tr>{''.join(map(_cell, cells))}</tr>" for cells in table.cells)
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    return "\n".join([
        f"<h3>{_text(table.title)}</h3>",
        f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>',
        f"{rows}</tbody></table></div>",
        f'<ul class="notes">{notes}</ul>' if notes else "",
    ])  # fmt: skip


def _cell(text: str) -> str:
    mark = MARKS.get(text)
    return f'<td class="{mark}">{_text(text)}</td>' if mark else f"<td>{_text(text)}</td>"


def _pictures(pictures: Sequence[Picture]) -> str:
    shown = [
        f'<figure><img alt="{escape(each.shows)}" src="data:image/png;base64,{base64.b64encode(each.png).decode()}">'
        "</figure>"
        for each in pictures
    ]
    return "\n".join(['<div class="pictures">', *shown, "</div>"])


def _anchor(place: int) -> str:
    return f"data-{place + 1}"


def _text(words: str) -> str:
    """Return text as HTML, what stands in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(words))


def _plain(words: str) -> str:
    return escape(words.replace("`", ""))


PAGE, TEXT, TABLE, PICTURES = "report.html", "report.md", "report.csv", "report-*.png"


def write_report(folder: Path, title: str, found: Found) -> Content:
    """Write page, text, table and pictures over those of an earlier report in `folder`; give what they say."""
    content = make_content(title, found)
    pictures = [each for chapter in content.chapters for part in chapter.parts for each in _write_pictures(part)]
    for stale in set(folder.glob(PICTURES)) - {folder / each.file for each in pictures}:
        stale.unlink()
    files = {
        **{each.file: each.png for each in pictures},
        TABLE: to_csv(rows(content)),
        TEXT: text(content).encode(),
        PAGE: page(content).encode(),
    }
    for name, data in files.items():
        with replacing(folder / name) as file:
            file.write(data)
    return content


def _write_pictures(part: object) -> list[Picture]:
    return [each for each in part if isinstance(each, Picture)] if isinstance(part, list) else []
