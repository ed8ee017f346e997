"""The files of a report, each there whole or not at all."""

from pathlib import Path

from forecast.common.files import replacing
from forecast.common.tables import to_csv
from forecast.report.content import Content, Picture, make_content
from forecast.report.lines import rows, text
from forecast.report.page import page
from forecast.runs.reading import Found

PAGE, TEXT, TABLE, PICTURES = "report.html", "report.md", "report.csv", "report-*.png"


def write_report(folder: Path, title: str, found: Found) -> Content:
    """Write page, text, table and pictures over those of an earlier report in `folder`; give what they say."""
    content = make_content(title, found)
    pictures = [each for chapter in content.chapters for part in chapter.parts for each in _pictures(part)]
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


def _pictures(part: object) -> list[Picture]:
    return [each for each in part if isinstance(each, Picture)] if isinstance(part, list) else []
