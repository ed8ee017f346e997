"""Files that cost a careless reader minutes or gigabytes."""

from functools import cache

MEBIBYTE = 2**20


@cache
def hostile() -> dict[str, bytes]:
    """Return hostile files of about a mebibyte by name."""
    row = b"2022-01-01 00:00,1,2\n"
    table = b"time,a,b\n" + row
    return {
        "quotes": b'"' * MEBIBYTE,
        "quotes of an odd number": b'"' * (MEBIBYTE + 1),
        "quotes below a header": table + b'"' * MEBIBYTE,
        "single quotes": b"'" * MEBIBYTE,
        "commas": b"," * MEBIBYTE,
        "semicolons": b";" * MEBIBYTE,
        "tabs": b"\t" * MEBIBYTE,
        "bars": b"|" * MEBIBYTE,
        "all delimiters": b",;\t|" * (MEBIBYTE // 4),
        "points": b"." * MEBIBYTE,
        "blanks": b" " * MEBIBYTE,
        "nested quotes": b'"a,""b;""c""d"",' * (MEBIBYTE // 16),
        "quotes and delimiters": b'",' * (MEBIBYTE // 2),
        "quotes and line ends": b'"\n' * (MEBIBYTE // 2),
        "quotes that open at each line": b'a,"b;c\n' * (MEBIBYTE // 7),
        "one line": b"a" * MEBIBYTE,
        "one line of numbers": b"1.234," * (MEBIBYTE // 6),
        "one quoted line": b'"' + b"a,b;" * (MEBIBYTE // 4) + b'"',
        "header lines": b"# a comment\n" * 100_000,
        "title lines": b"a title\n" * 100_000,
        "headers": b"time,a,b\n" * 100_000,
        "empty lines": b"\n" * MEBIBYTE,
        "carriage returns": b"\r" * MEBIBYTE,
        "lines of growing length": b"".join(b"," * count + b"\n" for count in range(1400)),
        "zero bytes": b"\0" * MEBIBYTE,
        "zero bytes below": table + b"\0" * MEBIBYTE,
        "bytes of no text": bytes(range(256)) * (MEBIBYTE // 256),
        "byte-order marks": b"\xef\xbb\xbf" * (MEBIBYTE // 3),
        "utf-16 of quotes": b"\xff\xfe" + b'"\0' * (MEBIBYTE // 2),
        "utf-16 of an odd length": b"\xff\xfe" + b"a" * MEBIBYTE + b"b",
        "utf-16 surrogates": b"\xff\xfe" + b"\x00\xd8" * (MEBIBYTE // 2),
        "long number": table + b"2022-01-01 01:00," + b"9" * MEBIBYTE + b",1\n",
        "number of marks": table + b"2022-01-01 01:00," + b"1.234,567 " * (MEBIBYTE // 10) + b",1\n",
        "number of points": table + b'2022-01-01 01:00,"' + b"1." * (MEBIBYTE // 2) + b'",1\n',
        "long date": b"time,a\n" + b"2022-01-01" * (MEBIBYTE // 10) + b",1\n",
        "date of blanks": b"time,a\n2022-01-01" + b" " * MEBIBYTE + b"x,1\n",
        "interval of dashes": b"time,a\n2022" + b" - " * (MEBIBYTE // 3) + b",1\n",
        "header of dates": b"id," + b"2022-01-01," * (MEBIBYTE // 11) + b"\nx,1\n",
        "header of quotes": b'"time","' + b'""' * (MEBIBYTE // 2) + b'"\n1,2\n',
        "formulas": table + b"2022-01-01 01:00,=1+1,2\n" * 40_000,
    }
