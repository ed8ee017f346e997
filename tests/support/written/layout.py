"""Delimiters, decimal marks, encodings, lines around the table, marks for missing."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tests.support.written.base import Written, cells_of, made, number, write

DELIMITERS = {"semicolon": ";", "tab": "\t", "bar": "|", "comma": ","}
THOUSANDS = {
    "none": "",
    "point": ".",
    "comma": ",",
    "blank": " ",
    "fixed-blank": "\u00a0",
    "narrow-blank": "\u202f",
    "apostrophe": "'",
    "curly-apostrophe": "\u2019",
}
STAMPS = ("%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M:%S", "%m/%d/%Y %H:%M", "%Y-%m-%dT%H:%M", "%d/%m/%Y %H:%M:%S")
MARK = r"data\.(decimal|thousands)="


def delimiters() -> Iterator[Written]:
    """Yield every delimiter with every decimal mark and thousands mark."""
    count = 0
    for word, delimiter in DELIMITERS.items():
        for decimal in (",", "."):
            for thousands, mark in THOUSANDS.items():
                if mark == decimal:
                    continue
                count += 1
                frame = made(seed=count, names=("load", "temperature", "price"), places=(2, 1, 2))
                cells = cells_of(frame, STAMPS[count % len(STAMPS)], decimal, mark, (2, 1, 2))
                content = write(
                    ["time", *frame.columns], cells, delimiter, newline=("\n", "\r\n")[count % 2], quote=count % 5 == 0
                )
                name = f"{word}, decimal {'comma' if decimal == ',' else 'point'}, thousands {thousands}"
                yield Written(f"{word}s", name, ("table.csv", "export.CSV")[count % 2], content, truth=frame)


def unusual_numbers() -> Iterator[Written]:
    """Yield numbers of which few cells show what their marks mean, and numbers of which none does."""
    frame = made(seed=91, names=("load",))
    whole = frame.round(0) + 1000
    settled = frame.abs() + 1000
    settled = settled.round(0)
    settled.iloc[100] = 999.5
    for delimiter, decimal, thousands in ((";", ",", "."), ("\t", ",", "."), (";", ".", ","), ("|", ".", ",")):
        cells = [
            [stamp, number(value, decimal, thousands, 0 if value % 1 == 0 else 1)]
            for stamp, value in zip(whole.index.strftime("%Y-%m-%d %H:%M"), settled["load"], strict=True)
        ]
        content = write(["time", "load"], cells, delimiter)
        yield Written("one-cell-settles", f"{delimiter!r} {decimal!r}", "table.csv", content, truth=settled)
    large = (frame * 1000).round(0)
    for spelling, mark in (("points", "."), ("blanks", " "), ("apostrophes", "'")):
        content = write(["time", "load"], cells_of(large, "%Y-%m-%d %H:%M", ",", mark, (0,)), ";")
        yield Written("millions", spelling, "table.csv", content, truth=large)
    small = frame / 1000
    small["load"] = [float(f"{1 + value % 1:.3f}") for value in small["load"]]
    for spelling, delimiter, mark in (("point", ";", "."), ("comma", ";", ","), ("tab", "\t", "."), ("bar", "|", ",")):
        content = write(["time", "load"], cells_of(small, "%Y-%m-%d %H:%M", mark, "", (3,)), delimiter)
        yield Written("ambiguous-mark", spelling, "table.csv", content, refusal=MARK)
        yield Written("said-decimal", spelling, "table.csv", content, {"decimal": mark}, truth=small)
        yield Written(
            "said-thousands", spelling, "table.csv", content, {"thousands": mark}, truth=(small * 1000).round(0)
        )
    content = write(["time", "load"], cells_of(small, "%Y-%m-%d %H:%M", ",", "", (3,)), quote=True)
    yield Written("ambiguous-mark", "quoted comma", "table.csv", content, refusal=MARK)


def said_marks() -> Iterator[Written]:
    """Yield files with the options that say what a reader would find."""
    frame = made(seed=77)
    for number_of, (delimiter, decimal, thousands) in enumerate(((";", ",", "."), ("\t", ",", " "), ("|", ".", ","))):
        cells = cells_of(frame, "%d.%m.%Y %H:%M", decimal, thousands)
        content = write(["time", *frame.columns], cells, delimiter)
        yield Written("said-delimiter", repr(delimiter), "table.csv", content, {"delimiter": delimiter}, truth=frame)
        options = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands}
        yield Written("said-all-marks", str(number_of), "table.csv", content, options, truth=frame)


def encodings() -> Iterator[Written]:
    """Yield files with a byte-order mark, in UTF-16, and in the code pages of Western Europe."""
    names = (("Außentemperatur [°C]", "Verbrauch"), ("Température °C", "Débit m³/s"), ("Año", "Tensión"))
    for place, heads in enumerate(names):
        frame = made(seed=place, names=heads, places=(1, 2))
        for delimiter, decimal in ((";", ","), (",", "."), ("\t", ",")):
            cells = cells_of(frame, "%Y-%m-%d %H:%M:%S", decimal, "", (1, 2))
            for kind, encoding, mark in (
                ("byte-order-mark", "utf-8-sig", b""),
                ("utf-16-le", "utf-16-le", b"\xff\xfe"),
                ("utf-16-be", "utf-16-be", b"\xfe\xff"),
                ("latin-1", "latin-1", b""),
            ):
                content = mark + write(["time", *heads], cells, delimiter, newline="\r\n", encoding=encoding)
                yield Written(kind, f"{heads[0]} {delimiter!r}", "table.csv", content, truth=frame)
    for place, (encoding, head) in enumerate(
        (("cp1252", "Preis in €"), ("cp1252", "“load”"), ("cp1250", "Prąd łącznie"))
    ):
        frame = made(seed=place, names=(head,))
        content = write(["time", head], cells_of(frame, "%Y-%m-%d %H:%M"), ";", encoding=encoding)
        options = {"encoding": encoding}
        yield Written("said-encoding", head, "table.csv", content, options, truth=frame)
        if encoding == "cp1252":
            yield Written("cp1252", head, "table.csv", content, truth=frame)
    frame = made(seed=5, names=("Größe \u2013 heute",))
    content = write(["time", "Größe \u2013 heute"], cells_of(frame, "%Y-%m-%d %H:%M"), encoding="cp1252")
    yield Written("cp1252", "dash", "table.csv", content, truth=frame)


ABOVE: dict[str, dict[str, list[str]]] = {
    "comment-lines": {
        "hash": ["# station 17", "# exported 2022-05-01, 14:30"],
        "percent": ["% Lake level", "% unit: cm", "% quality: checked"],
        "slashes": ["// meter 4711, hourly"],
        "quoted-hash": ['"# made by the archive, version 2.1"'],
        "with-blank": ["# station 17", ""],
    },
    "title-lines": {
        "title": ["Consumption of the plant in March 2022"],
        "title-and-blank": ["Lastgang Werk 3", ""],
        "keys": ["Station: Harbour", "Latitude: 52.31", "Longitude: 10.5", "Height: 43 m"],
        "keys-in-cells": ["Station,Harbour", "Latitude,52.31", "Interval,1 h", ""],
        "dates-in-title": ["Report of 2022-05-01", "From 2022-03-10 to 2022-03-19"],
    },
    "blank-lines": {"one": [""], "three": ["", "", ""], "delimiters": [",,", ",,"]},
}

BELOW = {
    "totals": {"sum": ["Total,{sum},"], "average": ["Average,{mean},", "Minimum,1,"], "german": ["Summe,{sum},{sum}"]},
    "counts": {"rows": ["rows: 220"], "query": ["", "(220 rows affected)"], "records": ["220 records selected."]},
    "notes": {
        "source": ["", "Source: the network operator"],
        "footnote": ["* estimated values"],
        "end": ["END OF FILE"],
        "dashes": ["-----", "Printed on 2022-05-01"],
    },
    "blanks-below": {"one": [""], "many": ["", "", "", ""], "delimiters": [",,", ",,"]},
}

UNITS = {
    "brackets": ["", "[kW]", "[°C]"],
    "plain": ["UTC", "kWh", "degC"],
    "time-too": ["yyyy-mm-dd hh:mm", "MW", "C"],
    "dashes": ["-", "(kW)", "(°C)"],
}

LOGGERS: dict[str, list[str]] = {
    "two": ['"Name","CH1","CH2"'],
    "three": ["Logger 21X,SN 3391,v1.2,", "Interval,3600,s,"],
    "four": ['"TOA5","Meadow","CR6","8812","CR6.Std.09","CPU:meadow.CR6","41","Hourly"'],
    "six": ["Device;A12", "Serial;0815", "Start;10.03.2022 00:00", "Channels;2", "Rate;1 h"],
}


def around() -> Iterator[Written]:
    """Yield tables with lines above the header, below the header, and below the last row."""
    for kind, spellings in ABOVE.items():
        for place, (spelling, above) in enumerate(spellings.items()):
            frame = made(seed=place + 10)
            content = write(["time", *frame.columns], cells_of(frame, "%Y-%m-%d %H:%M:%S"), above=above)
            yield Written(kind, spelling, "table.csv", content, truth=frame)
            row = len(above) + 1
            yield Written("said-header-row", f"{kind} {spelling}", "table.csv", content, {"header_row": row}, frame)
    for place, (spelling, delimiter) in enumerate((("semicolon", ";"), ("comma", ","), ("tab", "\t"))):
        frame = made(seed=place + 30)
        cells = cells_of(frame, "%Y-%m-%d %H:%M", "." if delimiter == "," else ",")
        content = write(["time", *frame.columns], cells, delimiter, above=[f"sep={delimiter}"], newline="\r\n")
        yield Written("separator-line", spelling, "table.csv", content, truth=frame)
    for kind, spellings in BELOW.items():
        for place, (spelling, below) in enumerate(spellings.items()):
            frame = made(seed=place + 50)
            total, mean = f"{frame['load'].sum():.2f}", f"{frame['load'].mean():.2f}"
            lines = [line.format(sum=total, mean=mean) for line in below]
            content = write(["time", *frame.columns], cells_of(frame, "%Y-%m-%d %H:%M:%S"), below=lines)
            yield Written(kind, spelling, "table.csv", content, truth=frame)
            if lines[-1].strip(","):
                options = {"skip_footer": len(lines)}
                yield Written("said-footer", f"{kind} {spelling}", "table.csv", content, options, frame)
    for place, (spelling, units) in enumerate(UNITS.items()):
        frame = made(seed=place + 70)
        cells = [units, *cells_of(frame, "%Y-%m-%d %H:%M")]
        yield Written("unit-row", spelling, "table.csv", write(["time", *frame.columns], cells), truth=frame)
    yield from _loggers()


def _loggers() -> Iterator[Written]:
    for place, (spelling, above) in enumerate(LOGGERS.items()):
        frame = made(seed=place + 80)
        delimiter, decimal = (";", ",") if ";" in above[0] else (",", ".")
        head, cells = ["TIMESTAMP", *frame.columns], cells_of(frame, "%Y-%m-%d %H:%M:%S", decimal)
        if spelling in ("two", "four"):
            head, cells = (
                ["TIMESTAMP", "RECORD", *frame.columns],
                [[row[0], str(n), *row[1:]] for n, row in enumerate(cells)],
            )
            cells = [["TS", "RN", "kW", "Deg C"], *([["", "", "Avg", "Smp"]] if spelling == "four" else []), *cells]
        content = write(head, cells, delimiter, above=above, quote=spelling == "four")
        yield Written("logger-header", spelling, "table.dat.csv", content, truth=frame)


def without_header() -> Iterator[Written]:
    """Yield tables without a header, which are refused, and the same with their columns named."""
    for place, (spelling, delimiter, decimal, stamps) in enumerate(
        (
            ("commas", ",", ".", "%Y-%m-%d %H:%M"),
            ("semicolons", ";", ",", "%d.%m.%Y %H:%M"),
            ("tabs", "\t", ".", "%Y-%m-%dT%H:%M:%S"),
        )
    ):
        frame = made(seed=place + 90)
        content = write([], cells_of(frame, stamps, decimal), delimiter)
        yield Written("no-header", spelling, "table.csv", content, refusal=r"data\.columns=\[")
        options = {"columns": ["time", "load", "temperature"]}
        yield Written("said-columns", spelling, "table.csv", content, options, truth=frame)


MARKS: dict[str, str] = {
    "point": ".",
    "dash": "-",
    "question": "?",
    "M": "M",
    "division": "#DIV/0!",
    "german": "n.v.",
    "dashes": "---",
    "stars": "***",
    "trace": "No data",
    "value": "#VALUE!",
    "blank-in-it": "not measured",
}


def missing() -> Iterator[Written]:
    """Yield tables with a word in empty cells: refused with the option that names it, or read with the option."""
    for place, (spelling, mark) in enumerate(MARKS.items()):
        frame = made(seed=place + 100)
        holes = np.random.default_rng(place).choice(np.arange(5, 200), 9, replace=False)
        frame.iloc[holes, 0] = np.nan
        cells = cells_of(frame, "%Y-%m-%d %H:%M:%S")
        content = write(["time", *frame.columns], [[cell or mark for cell in row] for row in cells])
        yield Written(
            "mark-for-missing", spelling, "table.csv", content, truth=frame, refusal=r"data\.missing_values=\["
        )
        options: dict[str, Any] = {"missing_values": [mark], "missing": "mask"}
        yield Written("said-mark", spelling, "table.csv", content, options, truth=frame)
    for place, mark in enumerate(("-9999", "-999.9", "9999")):
        frame = made(seed=place + 120)
        frame.iloc[[40, 41, 99, 150], 1] = np.nan
        cells = [[cell or mark for cell in row] for row in cells_of(frame, "%Y-%m-%d %H:%M:%S")]
        options = {"missing_values": [float(mark)], "missing": "mask"}
        content = write(["time", *frame.columns], cells)
        yield Written("said-number-for-missing", mark, "table.csv", content, options, truth=frame)
    frame = made(seed=130)
    frame.iloc[[30, 31], 0], frame.iloc[[70, 71], 1] = np.nan, np.nan
    for place, pair in enumerate((("-", "?"), ("M", "."), ("NIL", "#REF!"))):
        cells = [[row[0], row[1] or pair[0], row[2] or pair[1]] for row in cells_of(frame, "%Y-%m-%d %H:%M")]
        content = write(["time", *frame.columns], cells)
        yield Written("two-marks", str(place), "table.csv", content, truth=frame, refusal=r"data\.missing_values=\[")


def combined() -> Iterator[Written]:
    """Yield whole files with several of these things at once."""
    heads = ("Verbrauch [kWh]", "Außentemperatur [°C]")
    for place, (spelling, encoding, below) in enumerate(
        (
            ("cp1252", "cp1252", ["", "Summe;1.234.567,89;"]),
            ("mark", "utf-8-sig", ["Gesamt;1.234.567,89;12,5"]),
            ("plain", "utf-8", ["", "Quelle: Netzbetreiber Süd"]),
        )
    ):
        frame = made(seed=place + 140, names=heads)
        cells = cells_of(frame, "%d.%m.%Y %H:%M", ",", ".")
        above = ["Lastgang Werk 3;;", ";;"]
        content = write(["Datum", *heads], cells, ";", above=above, below=below, newline="\r\n", encoding=encoding)
        yield Written("german-spreadsheet", spelling, "Lastgang.csv", content, truth=frame)
    for place, (spelling, decimal, end) in enumerate((("point", ".", []), ("comma", ",", []), ("end", ",", ["END"]))):
        frame = made(seed=place + 150, names=("CH1", "CH2"))
        cells = cells_of(frame, "%Y/%m/%d %H:%M:%S", decimal)
        above = ["Logger\tA12", "Firmware\t3.1", "", "# data"]
        units = [["", "V", "°C"]]
        content = write(["Time", "CH1", "CH2"], units + cells, "\t", above=above, below=end, encoding="latin-1")
        yield Written("logger-with-tabs", spelling, "logger.csv", content, truth=frame)
    yield from _operators()


def _operators() -> Iterator[Written]:
    """Yield exports of operators: intervals in local time, with thousands, a mark for missing and an empty column."""
    index = pd.date_range("2023-05-14", periods=200, freq="h", tz="Europe/Paris")
    for place, (spelling, delimiter, gap, decimal) in enumerate(
        (("semicolons", ";", " - ", ","), ("tabs", "\t", " \u2013 ", ","), ("commas", ",", " to ", "."))
    ):
        frame = made(seed=place + 160, names=("Actual load [MW]",), times=index)
        ends = index + pd.Timedelta(hours=1)
        stamps = [f"{a:%d/%m/%Y %H:%M} (CEST){gap}{b:%d/%m/%Y %H:%M} (CEST)" for a, b in zip(index, ends, strict=True)]
        cells = [[*row, "FR"] for row in cells_of(frame, stamps, decimal, " ")]
        content = write(["Interval", *frame.columns, "Area"], cells, delimiter)
        options = {"time_zone": "Europe/Paris"}
        words = r"data\.targets="
        yield Written("operator-export", spelling, "load.csv", content, options, truth=frame, refusal=words)


GROUPS = (delimiters, unusual_numbers, said_marks, encodings, around, without_header, missing, combined)
