"""The report as one HTML page that asks for nothing beyond itself."""

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape

from forecast.common.tables import Sheet
from forecast.report.content import Chapter, Content, Picture
from forecast.report.other_sheets import COMMANDS, EQUAL, LEFT_OUT
from forecast.report.style import CSS, SCRIPT

OF_WORDS = (EQUAL, COMMANDS, LEFT_OUT)
"""Tables whose cells are words: they stand to the left."""

MARKS = {"differs": "flag", "better": "good", "worse": "bad"}
"""Cells that are coloured too; what they say is in their words."""

_CODE = re.compile(r"`([^`]*)`")


def page(content: Content) -> str:
    """Give the page; its own policy lets a browser load nothing and run nothing but what is in it."""
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
        "" if content.left_out is None else f"<section>{_sheet(content.left_out)}</section>",
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
        *(_sheet(part) if isinstance(part, Sheet) else _pictures(part) for part in chapter.parts),
        "</section>",
    ]
    return "\n".join(lines)


def _sheet(sheet: Sheet) -> str:
    kind = "words" if sheet.title in OF_WORDS else "sorts"
    head = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in sheet.headings)
    rows = "\n".join(f"<tr>{''.join(map(_cell, cells))}</tr>" for cells in sheet.cells)
    notes = "".join(f"<li>{_text(note)}</li>" for note in sheet.notes)
    return "\n".join([
        f"<h3>{_text(sheet.title)}</h3>",
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
    """Give text as HTML, what stands in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(words))


def _plain(words: str) -> str:
    return escape(words.replace("`", ""))
