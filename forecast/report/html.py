"""The report as one HTML page, as Markdown and as CSV."""

import base64
import hashlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from forecast.common.files import look_up, replacing
from forecast.common.tables import Table, inert, to_csv
from forecast.report.budget import passes, windows_seen
from forecast.report.comparisons import Baseline, Comparison, baselines_of
from forecast.report.content import Chapter, Content, make_content
from forecast.report.costs import COSTS, TIMES, Cost, basis, front, rounds_cheaper, times_cheaper, verdict
from forecast.report.sections import Setting
from forecast.report.tables import number_paths
from forecast.runs.read import Found


def text(content: Content) -> str:
    """Return the Markdown, which links the picture files beside it."""
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
        row |= _comparison_cells(name, made.get(setting.key))
    return {**row, "commands": "; ".join(run.result["command"] for run in setting.runs)}


def _time_cells(cost: Cost, setting: Setting, against: Setting | None) -> dict[str, Any]:
    """Return the time in turn, whether the machine was busy, and the verdict against the reference."""
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


def _comparison_cells(name: str, each: Comparison | None) -> dict[str, Any]:
    columns = [f"against_{name}{end}" for end in ("_percent", "_low", "_high", "_level", "")]
    if each is None:
        return dict.fromkeys(columns)
    return dict(zip(columns, (each.per_cent, *each.range_per_cent, each.level, each.verdict), strict=True))


def _baseline_row(chapter: Chapter, baseline: Baseline) -> dict[str, Any]:
    paths = number_paths(chapter.section)
    scores = {column: look_up(baseline.scores, path) for column, path in paths.items()}
    told = {"data": chapter.section.title, "row": baseline.name, "mechanism": baseline.label, "skill": baseline.skill}
    return told | {column: value for column, value in scores.items() if value is not None}


MARKS = {"differs": "flag", "better": "good", "worse": "bad"}
"""Cells that are also coloured."""

_CODE = re.compile(r"`([^`]*)`")


def page(content: Content) -> str:
    """Return the page; its content policy allows nothing from outside it."""
    here = Path(__file__).parent
    pages = Environment(loader=FileSystemLoader(here), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    pages.filters.update(code=_with_code, base64=_base64)
    style, script = (Markup((here / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    digest = _base64(hashlib.sha256(script.encode()).digest())
    template = pages.get_template("page.html")
    return template.render(content=content, marks=MARKS, style=style, script=script, digest=digest)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _with_code(words: str) -> Markup:
    """Return text as HTML, with backticks as code."""
    escaped = str(escape(words))  # as plain text: a Markup would escape the tags that are put in
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))


PAGE, TEXT, TABLE, PICTURES = "report.html", "report.md", "report.csv", "report-*.png"


def write_report(folder: Path, title: str, found: Found) -> Content:
    """Write page, text, table and pictures into `folder`, over older ones; return their content."""
    content = make_content(title, found)
    parts = [part for chapter in content.chapters for part in chapter.parts]
    pictures = [each for part in parts if not isinstance(part, Table) for each in part]
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
