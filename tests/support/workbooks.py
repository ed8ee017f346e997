"""Workbooks with a few sheets, in the formats that are read."""

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any
from xml.sax.saxutils import escape

import xlsxwriter

Rows = Sequence[Sequence[Any]]


def xlsx(sheets: Mapping[str, Rows], hidden: Sequence[str] = ()) -> bytes:
    """Return an .xlsx file; dates and times of day have such a format."""
    content = io.BytesIO()
    options = {"strings_to_formulas": False, "strings_to_urls": False, "in_memory": True}
    with xlsxwriter.Workbook(content, options) as book:
        forms = {datetime: "yyyy-mm-dd hh:mm:ss", date: "yyyy-mm-dd", time: "hh:mm:ss"}
        formats = {kind: book.add_format({"num_format": form}) for kind, form in forms.items()}
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for place, row in enumerate(rows):
                for column, cell in enumerate(row):
                    if cell is not None:
                        sheet.write(place, column, cell, formats.get(type(cell)))
            if name in hidden:
                sheet.hide()
    return content.getvalue()


def ods(sheets: Mapping[str, Rows]) -> bytes:
    """Return an .ods file."""
    tables = "".join(
        f'<table:table table:name="{escape(name)}">'
        + "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet", zipfile.ZIP_STORED)
        head = '<?xml version="1.0" encoding="UTF-8"?>'
        manifest = 'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"'
        archive.writestr("META-INF/manifest.xml", f"{head}<manifest:manifest {manifest}/>")
        archive.writestr("content.xml", f"{head}<office:document-content {spaces}>{body}</office:document-content>")
    return content.getvalue()


def _ods_cell(cell: Any) -> str:
    if cell is None:
        return "<table:table-cell/>"
    if isinstance(cell, int | float):
        return f'<table:table-cell office:value-type="float" office:value="{cell!r}"><text:p/></table:table-cell>'
    if isinstance(cell, date):
        text = cell.isoformat()
        return f'<table:table-cell office:value-type="date" office:date-value="{text}"><text:p/></table:table-cell>'
    text = escape(str(cell))
    return f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'


def xls(name: str, rows: Rows) -> bytes:
    """Return an .xls file of one sheet with texts, numbers and dates."""
    epoch = datetime(1899, 12, 30)
    cells = b""
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            at = struct.pack("<HH", place, column)
            if isinstance(cell, datetime):
                cells += _record(0x203, at + struct.pack("<Hd", 1, (cell - epoch).total_seconds() / 86400))
            elif isinstance(cell, int | float):
                cells += _record(0x203, at + struct.pack("<Hd", 0, cell))
            elif cell is not None:
                cells += _record(0x204, at + struct.pack("<H", 0) + _unicode(str(cell), "<H"))
    begin, end = (lambda kind: _record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 0))), _record(0x0A, b"")
    sheet = begin(0x10) + _record(0x200, struct.pack("<IIHHH", 0, len(rows), 0, len(rows[0]), 0)) + cells + end
    styles = b"".join(_record(0xE0, struct.pack("<HH", 0, form) + bytes(16)) for form in (0, 22))  # 22: a date and time
    head = begin(5) + _record(0x42, struct.pack("<H", 1200)) + styles
    facts = lambda start: _record(0x85, struct.pack("<IBB", start, 0, 0) + _unicode(name, "<B"))  # noqa: E731
    start = len(head) + len(facts(0)) + len(end)
    return _compound(head + facts(start) + end + sheet)


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


def _unicode(text: str, length: str) -> bytes:
    return struct.pack(length, len(text)) + b"\x01" + text.encode("utf-16-le")


def _compound(stream: bytes) -> bytes:
    """Return a compound file with one stream, the workbook."""
    size, free, last = 512, 0xFFFFFFFF, 0xFFFFFFFE
    stream = stream.ljust(max(4096, -(-len(stream) // size) * size), b"\0")
    count = len(stream) // size
    tables = -(-(count + 2) // (size // 4 - 1)) + 1
    chain = [*range(1, count), last, last, *([0xFFFFFFFD] * tables)]
    table = struct.pack(f"<{len(chain)}I", *chain)
    table = table.ljust(tables * size, b"\xff")
    entry = lambda name, kind, child, start, length: (  # noqa: E731
        (name.encode("utf-16-le") + b"\0\0").ljust(64, b"\0")
        + struct.pack("<HBB", 2 * len(name) + 2, kind, 1)
        + struct.pack("<III", free, free, child)
        + bytes(36)
        + struct.pack("<IQ", start, length)
    )
    folder = entry("Root Entry", 5, 1, last, 0) + entry("Workbook", 2, free, 0, len(stream))
    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    places = [count + 1 + place for place in range(tables)]
    head += struct.pack("<IIIIIIIII", 0, tables, count, 0, 4096, last, 0, last, 0)
    head += struct.pack(f"<{len(places)}I", *places)
    return head.ljust(size, b"\xff") + stream + folder.ljust(size, b"\0") + table
