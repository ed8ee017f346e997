"""The HTTP application: forecasts, what is understood of a table, facts about the models, metrics and the page."""

import asyncio
import mimetypes
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources import files
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from forecast.common.cli import explain
from forecast.predict.forecast import Question
from forecast.predict.known import MissingKnown
from forecast.predict.output import program_version
from forecast.serve.bodies import (
    ENDINGS,
    JSON,
    WRITTEN,
    Body,
    Options,
    Parsed,
    answer_type,
    largest_file,
    media_type,
    parse,
    problem,
    read_body,
    written,
)
from forecast.serve.guard import Guard, Metrics, Refused
from forecast.serve.served import Served, records
from forecast.serve.untrained import Untrained

WORK_SECONDS = 100.0
"""Most seconds for an answer, with the time in the queue."""

PAGES = {"/": "index.html", "/docs": "docs.html"}

STATUSES = {2: 422, 3: 422, 4: 507, 6: 503}
"""Status of an answer by the exit code of the command."""

T = TypeVar("T")
Model = Served | Untrained


class Service:
    """The served models, and the threads that answer.

    One thread reads and forecasts, one request after the other. Two are no faster, since most of the work is Python's,
    and several requests in one forward pass would differ from `forecast predict` in the last bits. A forecast without
    training, which may take a minute, has a thread of its own, so that it blocks no other model.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = {each.name: each for each in models}
        self.metrics = Metrics()
        self._thread, self._slow = (ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("forecast", "slow"))

    def named(self, name: str | None) -> Model:
        """Return a model, without a name the first."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Refused(404, f"model {name[:100]!r}: is not served: choose one of {', '.join(self.models)}")
        return self.models[name]

    async def work(self, request: Request, query: Options, call: Callable[[Model, Parsed], T]) -> T:
        """Return what a call makes of the model and the body; raise Refused for an error that a command explains.

        The call is not begun if the client leaves before.
        """
        own = media_type(request.headers.get("content-type", ""))
        content = await read_body(request)

        def read() -> tuple[Model, Parsed]:
            parsed = parse(content, own, query)
            return self.named(parsed[2].model), parsed

        gone, until = asyncio.ensure_future(_left(request)), time.monotonic() + WORK_SECONDS
        try:
            model, parsed = await _result(self._thread.submit(read), gone, until)
            thread = self._slow if isinstance(model, Untrained) else self._thread
            return await _result(thread.submit(call, model, parsed), gone, until)
        except MissingKnown as error:
            raise Refused(422, str(error), known=records(error.template)) from None
        except Refused:
            raise
        except Exception as error:
            if (known := explain(error)) is None:
                raise
            message, code = known
            raise Refused(STATUSES.get(code, 500), message) from None
        finally:
            gone.cancel()

    async def forecast(self, request: Request, query: Options) -> Response:
        """Answer a request for a forecast."""
        kind = answer_type(request)

        def call(model: Model, parsed: Parsed) -> tuple[bytes, dict[str, str]]:
            table, known, asked = parsed
            question = Question(tuple(asked.levels), asked.quantile, False, asked.beyond_training)
            return written(model.answer(table, known, question, asked.ids, asked.horizon), kind)

        body, headers = await self.work(request, query, call)
        return Response(body, media_type=kind, headers=headers)

    async def table(self, request: Request, query: Options) -> dict[str, Any]:
        """Answer what is understood of a table."""

        def call(model: Model, parsed: Parsed) -> dict[str, Any]:
            table, _, asked = parsed
            return model.understood(table, asked.ids, asked.horizon)

        return await self.work(request, query, call)


async def _result(work: Future[T], gone: asyncio.Future[None], until: float) -> T:
    """Return the result of work in a thread; raise Refused if the client leaves or the time is over before."""
    future = asyncio.wrap_future(work)
    try:
        ends: set[asyncio.Future[Any]] = {future, gone}
        left = max(0.0, until - time.monotonic())
        await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not future.done() and gone.done():
            raise Refused(400, "the client has left")
        if not future.done():
            raise Refused(504, f"no answer within {WORK_SECONDS:g} s: send fewer rows, or try again later")
        return future.result()
    finally:
        future.cancel()


async def _left(request: Request) -> None:
    """Return when the client of a request whose body was read has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


_REFUSALS: dict[int | str, str] = {
    400: "the body or an option is malformed",
    401: "no token",
    403: "a foreign Host or Origin",
    404: "no such model",
    406: "a type that is not written",
    408: "the body is too slow",
    413: "the body is too large",
    415: "a type that is not read",
    422: "a table or option that the model refuses, with the line of the command",
    503: "too many requests",
    504: "no answer in time",
    "default": "another error",
}
_NAME = Options.model_fields["model"].description
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def _responses(*more: int) -> dict[int | str, dict[str, Any]]:
    content = {JSON: {"schema": _ERROR}}
    codes: list[int | str] = [*sorted({401, 403, *more}), "default"]
    return {code: {"description": _REFUSALS[code], "content": content} for code in codes}


def _body() -> dict[str, Any]:
    """Return the description of a body in OpenAPI."""
    schema = Body.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    schema["properties"]["file"] = {
        "type": "object",
        "description": Body.model_fields["file"].description,
        "required": ["type", "base64"],
        "additionalProperties": False,
        "properties": {"type": {"enum": list(ENDINGS)}, "base64": {"type": "string", "format": "byte"}},
    }
    kinds = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ENDINGS}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}, **kinds}}}


def build(models: Sequence[Model], hosts: Sequence[str], token: str | None) -> Guard:
    """Return the application that serves the models."""
    service = Service(models)
    app = FastAPI(
        title="forecast",
        version=program_version().removeprefix("forecast").strip() or "0",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    posted = (400, 404, 408, 413, 415, 422, 503, 504)
    kinds: dict[str, Any] = {kind: {} for kind in WRITTEN if kind != JSON}

    @app.post("/forecast", openapi_extra=_body(), responses=_responses(406, *posted) | {200: {"content": kinds}})
    async def forecast(request: Request, query: Annotated[Options, Query()]) -> Response:
        """Forecast the steps after a table.

        The answer has the form of the body, or the type in the header Accept. A CSV answer is the file that forecast
        predict writes.
        """
        return await service.forecast(request, query)

    @app.post("/table", openapi_extra=_body(), responses=_responses(*posted))
    async def table(request: Request, query: Annotated[Options, Query()]) -> dict[str, Any]:
        """Return what is understood of a table: its columns, step, gaps and last rows."""
        return await service.table(request, query)

    @app.get("/model", responses=_responses(400, 404))
    async def model(model: Annotated[str | None, Query(max_length=1000, description=_NAME)] = None) -> dict[str, Any]:
        """Return what a model needs and its scores on the test split, and the names of all models."""
        return {**service.named(model).facts(), "models": list(service.models), "largest_file": largest_file()}

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the service answers."""
        return {"status": "ok"}

    @app.get("/metrics", responses=_responses(), response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Return counts and times of requests in the text format of Prometheus."""
        return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")

    _handle_errors(app)
    return Guard(app, tuple(hosts), token, _add_pages(app), service.metrics)


def _add_pages(app: FastAPI) -> list[str]:
    """Add the files of the page; return their paths."""
    names = {"/" + file.name: file for file in (files("forecast.serve") / "page").iterdir()}
    pages = {**names, **{path: names["/" + name] for path, name in PAGES.items()}}
    for path, file in pages.items():
        kind = mimetypes.guess_type(file.name)[0] or "text/plain"
        app.add_route(path, _plain(file.read_bytes(), kind), include_in_schema=False)
    return list(pages)


def _plain(content: bytes, kind: str) -> Callable[[Request], Response]:
    return lambda _: Response(content, media_type=kind)


def _handle_errors(app: FastAPI) -> None:
    """Answer each error with JSON of one line."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return JSONResponse(error.content, error.status, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": problem(error.errors())}, 400)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        where = f"{request.method[:20]} {request.url.path[:100]}"
        return JSONResponse({"error": f"{where}: {error.detail}"}, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def fault(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": "a fault of the program: its log has the traceback"}, 500)
