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
from forecast.common.text import LINES, shown
from forecast.report.budget import passes, windows_seen
from forecast.report.comparisons import Baseline, Comparison, baselines_of
from forecast.report.content import Content, DiagnosisChapter, GroupChapter, Picture, make_content
from forecast.report.costs import COSTS, PROCESSOR, TIMES, Cost, basis, front, rounds_cheaper, times_cheaper, verdict
from forecast.report.diagnosis.tables import diagnosis_rows
from forecast.report.groups import Setting
from forecast.report.tables import FoldingTable, number_paths
from forecast.runs.read import Found


def text(content: Content) -> str:
    """Return the Markdown, which links the picture files beside it; folded columns are a table of their own."""
    lines = [f"# {inert(content.title)}", ""]
    for chapter in content.chapters:
        lines += [f"## {inert(chapter.title)}", "", *(f"{inert(sentence)}\n" for sentence in chapter.answer)]
        lines += [] if chapter.picture is None else [_link(chapter.picture), ""]
        if chapter.details:
            lines += ["### Details", "", *(f"- {inert(sentence)}" for sentence in chapter.details), ""]
        for part in chapter.parts:
            if isinstance(part, FoldingTable):
                lines += [part.narrow().to_markdown(level=3), part.rest().to_markdown(level=4)]
            elif isinstance(part, Table):
                lines.append(part.to_markdown(level=3))
            else:
                lines += [*map(_link, part), ""]
    if content.left_out is not None:
        lines.append(content.left_out.to_markdown())
    return "\n".join(lines)


def _link(picture: Picture) -> str:
    return f"![{inert(picture.shows)}]({picture.file})"


def rows(content: Content) -> list[dict[str, Any]]:
    """Return one row per setting and baseline: all numbers with their standard deviations, verdicts, commands."""
    uneven: list[dict[str, Any]] = []
    for chapter in content.chapters:
        if isinstance(chapter, DiagnosisChapter):
            uneven += diagnosis_rows(chapter.diagnosis)
        if isinstance(chapter, GroupChapter):
            uneven += [_setting_row(chapter, setting) for setting in chapter.group.settings]
            uneven += [_baseline_row(chapter, baseline) for baseline in baselines_of(chapter.group)]
    columns = list(dict.fromkeys(column for row in uneven for column in row))
    return [{column: _none_for_nan(row.get(column)) for column in columns} for row in uneven]


def _none_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _setting_row(chapter: GroupChapter, setting: Setting) -> dict[str, Any]:
    first = setting.runs[0]
    row: dict[str, Any] = {
        "data": chapter.group.title,
        "row": "model",
        "mechanism": setting.arm,
        "look_back": setting.look_back,
        "n": len(setting.runs),
        "seeds": " ".join(map(str, setting.seeds)),
        "conditions": setting.conditions,
        "windows_seen": float(np.mean([windows_seen(run) for run in setting.runs])),
        "passes": float(np.mean([passes(run) for run in setting.runs])),
        "test_windows": first.number("data.windows.test"),
    }
    for column, path in number_paths(chapter.group).items():
        row |= {column: setting.mean(path), f"{column}_sd": setting.deviation(path)}
    row[f"{PROCESSOR.key}_cost"] = PROCESSOR.of(setting)
    for cost in COSTS:
        row[f"{cost.key}_cost"] = cost.of(setting)
        row[f"not_dominated_{cost.key}"] = setting.key in front(chapter.group, cost)
    reference = chapter.comparisons.reference.get(setting.key)
    for cost in TIMES:
        row |= _time_cells(cost, setting, None if reference is None else reference.against)
    for name, comparisons in (
        ("full", chapter.comparisons.reference),
        ("mean", chapter.comparisons.control),
        ("best", chapter.comparisons.with_best),
    ):
        row |= _comparison_cells(name, comparisons.get(setting.key))
    return {**row, "commands": "; ".join(run.result["command"] for run in setting.runs)}


def _time_cells(cost: Cost, setting: Setting, against: Setting | None) -> dict[str, Any]:
    """Return the interleaved time, whether the machine was busy, and the verdict against the reference."""
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


def _comparison_cells(name: str, pair: Comparison | None) -> dict[str, Any]:
    columns = [f"against_{name}{end}" for end in ("_percent", "_low", "_high", "_level", "")]
    if pair is None:
        return dict.fromkeys(columns)
    return dict(zip(columns, (pair.per_cent, *pair.range_per_cent, pair.level, pair.verdict), strict=True))


def _baseline_row(chapter: GroupChapter, baseline: Baseline) -> dict[str, Any]:
    paths = number_paths(chapter.group)
    scores = {column: look_up(baseline.scores, path) for column, path in paths.items()}
    names = {"data": chapter.group.title, "row": baseline.name, "mechanism": baseline.label, "skill": baseline.skill}
    return names | {column: value for column, value in scores.items() if value is not None}


MARKS = {"differs": "flag", "better": "good", "worse": "bad", "faster": "good", "slower": "bad"}
"""Cell → class of its colour."""

_CODE = re.compile(r"`([^`]*)`")


def page(content: Content) -> str:
    """Return the page as one file; its content policy forbids all requests."""
    here = Path(__file__).parent
    pages = Environment(loader=FileSystemLoader(here), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    pages.filters.update(code=_with_code, base64=_base64)
    style, script = (Markup((here / name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    digest = _base64(hashlib.sha256(script.encode()).digest())
    template = pages.get_template("page.html")
    text = template.render(content=content, marks=MARKS, style=style, script=script, digest=digest)
    return shown(text, LINES)  # the name of a folder may have any character


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _with_code(words: str) -> Markup:
    """Return text as HTML, with backticks as code."""
    escaped = str(escape(words))  # as plain text: Markup would escape the tags that are put in
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))


PAGE, TEXT, TABLE = "report.html", "report.md", "report.csv"

_LINKED = re.compile(r"\]\((report-[\w-]+\.png)\)")


def write_report(folder: Path, title: str, found: Found) -> Content:
    """Write page, text, table and pictures into `folder`, replacing older ones; return their content."""
    content = make_content(title, found)
    pictures = [picture for chapter in content.chapters for picture in chapter.pictures]
    for stale in _linked(folder / TEXT) - {picture.file for picture in pictures}:
        (folder / stale).unlink(missing_ok=True)
    files = {
        **{picture.file: picture.png for picture in pictures},
        TABLE: to_csv(rows(content)),
        TEXT: text(content).encode(),
        PAGE: page(content).encode(),
    }
    for name, data in files.items():
        with replacing(folder / name) as file:
            file.write(data)
    return content


def _linked(report: Path) -> set[str]:
    """Return the picture files of an earlier report, none if there is no such report."""
    return set(_LINKED.findall(report.read_text(encoding="utf-8", errors="replace"))) if report.is_file() else set()
