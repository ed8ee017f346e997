"""Bodies of requests and answers: tables as JSON, CSV, Arrow and workbooks."""

import asyncio
import base64
import binascii
import json
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request

from forecast.common.errors import first_line
from forecast.common.files import MOST_BYTES, parse_json
from forecast.predict.output import scores_of
from forecast.serve.guard import Refused
from forecast.serve.served import Answer, records
from forecast.tables.files import Upload
from forecast.tables.formats.unpacking import CELL, LIMIT, MOST_COLUMNS, limit_bytes
from forecast.tables.writing import write_into

BODY_SECONDS = 30.0
"""Most seconds for a body to arrive."""

SHARE = 16
"""The largest body is this part of the largest table."""

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.file"
WORKBOOK = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ENDINGS = {
    CSV: ".csv",
    ARROW: ".arrow",
    "application/vnd.apache.arrow.stream": ".arrow",
    WORKBOOK: ".xlsx",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.ms-excel": ".xls",
}
"""Media types of the files that are read, with their endings."""

WRITTEN = {JSON: "", CSV: ".csv", ARROW: ".arrow", WORKBOOK: ".xlsx"}
"""Media types of answers, with the endings of the files of `forecast predict`."""

TABLE, KNOWN = "the table", "the known table"
"""Names of the tables in messages."""

NOTES, MOST_NOTES = "Forecast-Notes", 4000
"""Header with the notes and warnings of an answer that is a file, and its largest number of characters."""

_TEXT = Annotated[str, Field(max_length=1000)]


class Options(BaseModel):
    """What a forecast is asked for."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[_TEXT | None, Field(description="name of the model; default: the first")] = None
    levels: Annotated[
        list[float], Field(max_length=20, description="central intervals in per cent, such as 80 and 95")
    ] = []
    quantile: Annotated[
        float | None, Field(description="forecast this quantile, such as 0.9, not the point forecast")
    ] = None
    horizon: Annotated[
        int | None,
        Field(description="number of steps, of the model pretrained only; default: follows from the table"),
    ] = None
    ids: Annotated[
        list[_TEXT | int], Field(max_length=100_000, description="series of a long table to forecast; default: all")
    ] = []
    beyond_training: Annotated[
        bool, Field(description="accept known covariates more than ten widths of the range of training from its middle")
    ] = False


class File(BaseModel):
    """A file within a JSON body."""

    model_config = ConfigDict(extra="forbid")

    type: Annotated[_TEXT, Field(description="media type of the file")]
    base64: Annotated[str, Field(description="content of the file")]


class Body(Options):
    """A JSON body: the table, as rows or as a file, the known covariates of the horizon, and the options."""

    rows: Annotated[list[dict[str, Any]] | None, Field(description="rows of the table, each with all its cells")] = None
    file: Annotated[File | None, Field(description="the table as a file, instead of rows")] = None
    known: Annotated[
        list[dict[str, Any]] | None, Field(description="rows with the known covariates of the horizon")
    ] = None


def largest_file() -> int:
    """Return the most bytes of a file within a JSON body, whose base64 is a third longer, beside 64 KiB of options."""
    return (min(MOST_BYTES, limit_bytes() // SHARE) - 2**16) * 3 // 4


Parsed = tuple[Upload, list[Upload], Options]
"""The table of a request, the tables of known covariates, and the options."""


async def read_body(request: Request) -> bytes:
    """Return the body of a request; raise Refused if it is too large, too slow or packed."""
    limit = limit_bytes() // SHARE
    cure = f"send fewer rows, or start the service with a larger {LIMIT}"
    large = Refused(413, f"the body has more than {limit:,} bytes: {cure}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "Content-Encoding: a packed body is not read: send it unpacked")
    length = request.headers.get("content-length", "0")
    if len(length) > 18 or int(length) > limit:  # uvicorn accepts digits only
        raise large
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                content += piece
                if len(content) > limit:
                    raise large
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_SECONDS:g} s: send it again") from None
    except ClientDisconnect:
        raise Refused(400, "the body ended early: send it again") from None
    return bytes(content)


def media_type(text: str) -> str:
    """Return a media type without its parameters."""
    return text.partition(";")[0].strip().lower()


def answer_type(request: Request) -> str:
    """Return the media type of the answer: one that the request accepts, or the type of its own body."""
    own = media_type(request.headers.get("content-type", ""))
    own = own if own in WRITTEN else ARROW if ENDINGS.get(own) == WRITTEN[ARROW] else WORKBOOK
    accepted = [media_type(part) for part in request.headers.get("accept", "*/*").split(",")]
    for kind in accepted:
        if kind in WRITTEN or kind == "*/*":
            return kind if kind in WRITTEN else own
    raise Refused(406, f"Accept: none of its types is written: choose one of {', '.join(WRITTEN)}")


def parse(content: bytes, kind: str, query: Options) -> Parsed:
    """Return the table of a body, the tables of known covariates, and the options from the query and the body."""
    if kind != JSON:
        return _upload(content, kind), [], query
    try:
        body = Body.model_validate(parse_json(content))
    except ValidationError as error:
        raise Refused(400, problem(error.errors())) from None
    except ValueError as error:
        size = f"the largest JSON body has {MOST_BYTES:,} bytes" if len(content) > MOST_BYTES else first_line(error)
        raise Refused(413 if len(content) > MOST_BYTES else 400, f"the body is not JSON that is read: {size}") from None
    both = body.model_fields_set & query.model_fields_set
    if both:
        raise Refused(400, f"{min(both)}: is in the query and in the body: give it once")
    if (body.rows is None) == (body.file is None):
        raise Refused(400, "the body needs the table: give either rows or file")
    options = Options(
        **body.model_dump(include=body.model_fields_set & {*Options.model_fields}),
        **query.model_dump(exclude_unset=True),
    )
    known = [] if body.known is None else [_rows(body.known, KNOWN)]
    if body.rows is not None:
        return _rows(body.rows, TABLE), known, options
    assert body.file is not None
    try:
        return _upload(base64.b64decode(body.file.base64, validate=True), media_type(body.file.type)), known, options
    except binascii.Error as error:
        raise Refused(400, f"file.base64: {error}: encode the file again") from None


def problem(errors: Any) -> str:
    """Return the first complaint of pydantic in one line."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
    return f"{where[:200] or 'the body'}: {first['msg']}"


def _upload(content: bytes, kind: str) -> Upload:
    if kind not in ENDINGS:
        raise Refused(
            415,
            f"Content-Type {kind[:100]!r}: is not read: send one of {', '.join((JSON, *ENDINGS))}, such as "
            f"-H 'Content-Type: {CSV}' of curl",
        )
    return Upload(TABLE, content, ENDINGS[kind])


def _rows(rows: list[dict[str, Any]], name: str) -> Upload:
    """Return rows as a table; raise Refused if their union of columns is too large, or a cell is no plain value."""
    columns = dict.fromkeys(column for row in rows for column in row)
    if len(columns) > MOST_COLUMNS or len(rows) * len(columns) * CELL > limit_bytes():
        raise Refused(413, f"{name}: {len(rows):,} rows of {len(columns):,} columns exceed the limit: send fewer")
    if not columns:
        raise Refused(400, f"{name}: has no rows: send at least the look-back of the model")
    for place, row in enumerate(rows):
        for column, cell in row.items():
            if isinstance(cell, (dict, list)):
                raise Refused(
                    400, f"{name}, row {place + 1}, column {column[:100]!r}: must be a number, a text or null"
                )
    return Upload(name, pd.DataFrame(rows, columns=list(columns)))


def written(answer: Answer, kind: str) -> tuple[bytes, dict[str, str]]:
    """Return the bytes of an answer of a media type, and its headers."""
    said = [*answer.notes, *filter(None, [answer.intervals]), *(f"WARNING: {text}" for text in answer.warnings)]
    if kind == JSON:
        content = {
            "rows": records(answer.table),
            "naive": answer.naive,
            "intervals": answer.intervals,
            "notes": answer.notes,
            "warnings": answer.warnings,
        }
        return json.dumps(content, allow_nan=False).encode(), {}
    file = BytesIO()
    scores = scores_of(answer.folders) if kind == WORKBOOK else []
    write_into(file, Path(f"forecast{WRITTEN[kind]}"), answer.table, index=answer.index, scores=scores)
    while said and len(json.dumps(said)) > MOST_NOTES:
        said.pop()
    return file.getvalue(), {NOTES: json.dumps(said)} if said else {}
