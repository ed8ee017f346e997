"""Mutations of a table's text, cells, dates, rows and columns; each mutation writes a file."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.chaos.bench import FINITE, NOTE, REFUSE, SAME, Bench, Malformed

WORDS = (
    *("12 kW", "1,234", "#N/A", "n/a", "-", "null", "true", "0x10", "--5", "1e5e", "abc", "#REF!", "5 %", "½", "1.2.3"),
    *("", "NaN", "=1+1", "1 000", "∞", "5-", "(5)", "$5", "1_000", "\uff11\uff12", "\u0661\u0662"),
)
"""Texts that are not numbers, or only for some readers."""

NO_DATES = (
    *("now", "today", "yesterday", "2016-02-30", "2016-13-01 00:00:00", "1500-01-01", "3000-01-01", "", "NaT", "5"),
    *("2016-07-02 24:00:00", "2016-07-02 23:59:60", "01/02/2016", "2016-07-02T05:17:00Z", "16-07-02", "infinity"),
    *("-2016-07-02 00:00:00", "2016-07-02 05:00:00.000000001", "Q3 2016", "\uff12016-07-02", "12:00"),
)
"""Texts that are not dates, or not hours of the table."""


def encoding(bench: Bench) -> Malformed:
    """Write the table in another encoding."""
    name = bench.random.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7", "ascii"])
    return bench.write(bench.text.encode(name), name, SAME)


def delimiter(bench: Bench) -> Malformed:
    """Use another delimiter."""
    mark = bench.random.choice([";", "\t", "|", " ", ":", ", ", ",,", " ,", "\x1f"])
    return bench.write(bench.text.replace(",", mark), f"cells separated by {mark!r}", SAME)


def decimal_comma(bench: Bench) -> Malformed:
    """Use decimal commas."""
    frame = bench.frame.map(lambda cell: str(cell).replace(".", ",") if isinstance(cell, float) else cell)
    mark = bench.random.choice([",", ";"])
    return bench.write(frame.to_csv(index=False, sep=mark), f"decimal commas between {mark!r}", SAME)


def quoting(bench: Bench) -> Malformed:
    """Quote every cell, or insert a single quote."""
    lines = bench.text.splitlines()
    mark = bench.random.choice(['"', '"', "'", "`", "“"])
    if bench.random.random() < 0.5:
        quoted = [",".join(f"{mark}{cell}{mark}" for cell in line.split(",")) for line in lines]
        return bench.write("\n".join(quoted) + "\n", f"every cell in {mark}", SAME)
    place = bench.random.randrange(len(bench.text))
    return bench.write(bench.text[:place] + mark + bench.text[place:], f"{mark} at character {place}", SAME)


def ragged(bench: Bench) -> Malformed:
    """Add cells to one row, or remove some."""
    lines = bench.text.splitlines()
    row = bench.row() + 1
    changes: list[Callable[[str], str]] = [
        lambda line: line + ",5",
        lambda line: line + ",",
        lambda line: line.rsplit(",", 1)[0],
        lambda line: line.split(",")[0],
        lambda line: "," + line,
        lambda line: line + line,
    ]
    change = bench.random.randrange(len(changes))
    lines[row] = changes[change](lines[row])
    return bench.write("\n".join(lines) + "\n", f"row {row + 1} ragged ({change})", SAME if change == 1 else REFUSE)


def header(bench: Bench) -> Malformed:
    """Change the header."""
    body = bench.text.split("\n", 1)[1]
    head, expected = bench.random.choice(
        [
            ("date,load,load,air", REFUSE), ("date,load,oil", REFUSE), ("", REFUSE),
            ("2016-07-01 00:00:00,1,2,3", REFUSE),
            ("date,load ,oil,air", SAME), (" date, load, oil, air", SAME), ("DATE,load,oil,air", SAME),
            ("date,Load,oil,air", REFUSE), (",load,oil,air", SAME), ("date,load,oil,air,", SAME), ("a,b,c,d", REFUSE),
            ("date,load,oil,air,load", REFUSE), ("# made by x\ndate,load,oil,air", SAME),
            ("sep=,\ndate,load,oil,air", SAME),
            ("x" * 10**6 + ",load,oil,air", SAME), ("date;load;oil;air", REFUSE), ("\0,load,oil,air", SAME),
            ("date,oil,load,air", FINITE), ("\ufeffdate,load,oil,air", SAME), ('"date,load",oil,air', REFUSE),
        ]
    )  # fmt: skip
    return bench.write(f"{head}\n{body}", f"header {head[:40]!r}", expected)


def repeated_header(bench: Bench) -> Malformed:
    """Repeat the header among the rows."""
    lines = bench.text.splitlines()
    lines.insert(bench.row() + 1, lines[0])
    return bench.write("\n".join(lines) + "\n", "the header among the rows", REFUSE)


def words(bench: Bench) -> Malformed:
    """Replace a number by text."""
    cell = bench.random.choice(WORDS)
    return bench.planted(cell, REFUSE)


def enormous(bench: Bench) -> Malformed:
    """Replace a value by a number out of range."""
    cell = bench.random.choice(["1e30", "1e20", "-1e30", "1e38", "1e300", "inf", "-inf", "1e999", "9" * 400, "-1e25"])
    return bench.planted(cell, REFUSE)


def small_oddity(bench: Bench) -> Malformed:
    """Replace a value by an unusual but valid number."""
    return bench.planted(
        bench.random.choice(["-0.0", "1e-320", "+5", "5.", ".5", "1E2", "007", "0e0", "1" + "0" * 3]), FINITE
    )


def other_unit(bench: Bench) -> Malformed:
    """Write a column in another unit: a training can learn it, a forecast is out of range."""
    factor = bench.random.choice([1e36, 1e20, -1e30, 1e25])
    column = bench.random.choice(["load", "oil"])
    return bench.table(
        bench.frame.assign(**{column: bench.frame[column] * factor}),
        f"{column} times {factor:g}",
        FINITE if bench.look_back == len(bench.frame) else REFUSE,
    )


def date_cell(bench: Bench) -> Malformed:
    """Replace one date by another text."""
    cell = bench.random.choice(NO_DATES)
    return bench.planted(cell, REFUSE, "date")


def date_form(bench: Bench) -> Malformed:
    """Write all dates in another format."""
    form, expected = bench.random.choice(
        [
            ("%d.%m.%Y %H:%M", SAME), ("%m/%d/%Y %H:%M", SAME), ("%Y%m%d%H%M", REFUSE), ("%y-%m-%d %H:%M", REFUSE),
            ("%Y-%m-%dT%H:%M:%S", SAME), ("%Y-%m-%dT%H:%M:%SZ", REFUSE), ("%Y-%m-%d %H:%M:%S+02:00", REFUSE),
            ("%s", REFUSE), ("%d %B %Y %H:%M", SAME), ("%A %H:%M", REFUSE), ("%H:%M", REFUSE), ("%Y/%m/%d %H:%M", SAME),
            ("%Y-%j %H:%M", REFUSE), ("%d-%b-%Y %H:%M", SAME), ("%Y-%m-%d %I:%M", REFUSE), ("%Y-%m-%d %I:%M %p", SAME),
            ("%Y-%m-%d", REFUSE), ("%m-%d %H:%M", REFUSE), ("%Y-%m-%d %H:%M:%S.%f", SAME),
        ]
    )  # fmt: skip
    return bench.table(bench.frame.assign(date=bench.frame["date"].dt.strftime(form)), f"dates as {form}", expected)


def mixed_dates(bench: Bench) -> Malformed:
    """Write the dates of some rows in another format."""
    text = bench.frame["date"].astype(str)
    form = bench.random.choice(["%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%Y-%m-%dT%H:%M:%S+02:00", "%Y-%m-%d %H"])
    row = bench.row()
    text.iloc[row:] = bench.frame["date"].iloc[row:].dt.strftime(form)
    return bench.table(bench.frame.assign(date=text), f"dates from row {row + 2} on as {form}", SAME)


def doubled(bench: Bench) -> Malformed:
    """Repeat a time, with the same or other values."""
    row = bench.row()
    more = bench.frame.iloc[[row]].copy()
    if bench.random.random() < 0.7:
        more[bench.column()] += 1
    where = bench.random.choice([row, len(bench.frame)])
    return bench.table(
        pd.concat([bench.frame.iloc[:where], more, bench.frame.iloc[where:]]), f"row {row + 2} doubled", REFUSE
    )


def gap(bench: Bench) -> Malformed:
    """Remove rows, or some of their values."""
    row, length = bench.row(), bench.random.choice([1, 1, 2, 5])
    first = max(1, min(row, len(bench.frame) - length - 2))
    if bench.random.random() < 0.5:
        return bench.table(bench.frame.drop(index=range(first, first + length)), f"{length} rows gone", REFUSE)
    frame = bench.frame.copy()
    column = bench.column()
    frame.loc[first : first + length - 1, column] = np.nan
    return bench.table(frame, f"{length} values of {column} gone", REFUSE)


def disorder(bench: Bench) -> Malformed:
    """Change the order of the rows."""
    order = list(range(len(bench.frame)))
    kind = bench.random.choice(["swapped", "shuffled", "reversed"])
    if kind == "swapped":
        row = bench.row()
        order[row], order[row + 1] = order[row + 1], order[row]
    elif kind == "shuffled":
        bench.random.shuffle(order)
    else:
        order.reverse()
    return bench.table(bench.frame.iloc[order], f"rows {kind}", NOTE)


def off_grid(bench: Bench) -> Malformed:
    """Move one time off the grid."""
    frame, row = bench.frame.copy(), bench.row()
    shift = pd.Timedelta(bench.random.choice(["17min", "-1s", "1ns", "30min", "-29min", "1ms"]))
    frame["date"] = frame["date"] + shift * (frame.index == row).astype(int)
    return bench.table(frame, f"row {row + 2} moved by {shift}", REFUSE)


def other_step(bench: Bench) -> Malformed:
    """Use another time step."""
    step = bench.random.choice(["2h", "30min", "D", "1s", "7D", "MS", "59min"])
    dates = pd.date_range("2016-07-01", periods=len(bench.frame), freq=step)
    return bench.table(bench.frame.assign(date=dates), f"a step of {step}", FINITE if bench.look_back > 100 else REFUSE)


def panel(bench: Bench) -> Malformed:
    """Write several series below each other."""
    count = bench.random.choice([2, 3, 5])
    frame = pd.concat([bench.frame.assign(meter=n, load=bench.frame["load"] * (n + 1)) for n in range(count)])
    if bench.random.random() < 0.5:
        frame = frame.sort_values(["date", "meter"])
    return bench.table(frame, f"{count} meters", REFUSE)


def future_rows(bench: Bench) -> Malformed:
    """Append future rows without targets."""
    length = bench.random.choice([1, 12, 96])
    last = bench.frame["date"].iloc[-1]
    more = pd.DataFrame({"date": pd.date_range(last, periods=length + 1, freq="h")[1:]})
    more["air"] = 20.0
    if bench.random.random() < 0.3:
        more["air"] = np.nan
    frame = pd.concat([bench.frame, more])
    return bench.table(frame, f"{length} rows without targets at the end", NOTE, origin=last)


def blank_lines(bench: Bench) -> Malformed:
    """Insert blank lines between the rows or at the end."""
    lines = bench.text.splitlines()
    blank = bench.random.choice(["", ",,,", "   ", '"","","",""'])
    if bench.random.random() < 0.5:
        lines += [blank] * 5
        return bench.write("\n".join(lines) + "\n", f"blank rows {blank!r} at the end", SAME)
    lines.insert(bench.row(), blank)
    return bench.write("\n".join(lines) + "\n", f"a blank row {blank!r} inside", SAME)


def short(bench: Bench) -> Malformed:
    """Keep only a few rows, or none."""
    rows = bench.random.choice([0, 1, 2, 3, 20, 47])
    return bench.table(bench.frame.iloc[:rows], f"{rows} rows", REFUSE)


def columns(bench: Bench) -> Malformed:
    """Remove a column, reorder columns, or add others."""
    kind = bench.random.choice(["missing", "text", "reversed", "many", "constant", "only dates"])
    frame = bench.frame
    if kind == "missing":
        return bench.table(frame.drop(columns=bench.random.choice(["load", "air", "date"])), "a column missing", REFUSE)
    if kind == "text":
        return bench.table(frame.assign(note="x"), "a column of text", SAME if bench.look_back < 100 else REFUSE)
    if kind == "reversed":
        return bench.table(frame[frame.columns[::-1]], "columns reversed", SAME if bench.look_back < 100 else FINITE)
    if kind == "constant":
        column = bench.column()
        return bench.table(frame.assign(**{column: 5.0}), f"{column} constant", FINITE)
    if kind == "only dates":
        return bench.table(frame[["date"]], "only dates", REFUSE)
    more = pd.DataFrame(1.0, index=frame.index, columns=[f"x{n}" for n in range(bench.random.choice([50, 400]))])
    expected = SAME if bench.look_back < 100 else FINITE
    return bench.table(pd.concat([frame, more], axis=1), f"{more.shape[1]} more columns", expected)


MUTATIONS: dict[Callable[[Bench], Malformed], float] = {
    encoding: 2, delimiter: 2, decimal_comma: 1, quoting: 2, ragged: 2, header: 4, repeated_header: 1, words: 5,
    enormous: 5, small_oddity: 2, other_unit: 2, date_cell: 4, date_form: 3, mixed_dates: 2, doubled: 3, gap: 3,
    disorder: 2, off_grid: 2, other_step: 2, panel: 2, future_rows: 3, blank_lines: 1, short: 1, columns: 2,
}  # fmt: skip
"""Mutations, with their weights."""
