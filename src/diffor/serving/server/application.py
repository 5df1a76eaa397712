"""The application: a model behind HTTP, with its limits, its documents and its page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

try:
    import python_multipart  # noqa: F401
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
except ImportError as error:
    raise ImportError('serving needs FastAPI, uvicorn and python-multipart: pip install "diffor[serve]"') from error

import diffor
from diffor.errors import UserError
from diffor.estimators.chain import has_increments
from diffor.serving.server.answers import ModelAnswers, Question
from diffor.serving.server.batching import Batcher
from diffor.serving.server.columns import Columns, columns_of
from diffor.serving.server.description import REFUSALS, Answers, Health, Limits, Steps, describe_model, request_schema
from diffor.serving.server.gates import SizeGate, TokenGate, refused
from diffor.serving.server.pictures import kept_pictures
from diffor.serving.server.refusals import RefusedError, refusal
from diffor.serving.server.requests import RequestReader

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES = {"/": "index.html", "/docs": "docs.html"}
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def make_application(
    model: Any,
    *,
    sides: Mapping[str, str] | None = None,
    token: str | None = None,
    limits: Limits | None = None,
    wait: float = 0.002,
    facts: Mapping[str, Any] | None = None,
) -> FastAPI:
    """An application that serves a fitted model.

    ``sides`` names the columns that the method reads beside the features, by role (:func:`columns_of`). With a
    ``token``, only the page itself and ``/health`` are open without it. ``wait`` is how long, in seconds, a request
    waits for others to be answered with it. ``facts`` are told by ``/model`` beside what the model knows itself.
    """
    limits = limits or Limits()
    columns = columns_of(model, sides)
    # One batch has the rows of one request at least; more would keep small requests waiting.
    batcher = Batcher(ModelAnswers(model), wait, limits.max_rows, limits.max_waiting)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title="DiffoR", version=diffor.__version__, docs_url=None, redoc_url=None, lifespan=lifespan,
        description="Predictions of one model with their whole distribution. Every refusal says in detail, for each "
        "thing that is wrong, where it is and what to do about it.",
    )  # fmt: skip
    app.state.batcher = batcher
    _add_answers(app, model, columns, limits, batcher)
    _add_facts(app, describe_model(model, columns, limits, dict(facts or {})), batcher)
    open_paths = _add_page(app)
    app.add_exception_handler(RefusedError, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_wrong_path)
    app.add_exception_handler(Exception, _answer_failure)
    app.add_middleware(SizeGate, max_bytes=limits.max_bytes)
    if token is not None:
        app.add_middleware(TokenGate, token=token, open_paths={"/health", *open_paths})
    return app


def _add_answers(app: FastAPI, model: Any, columns: Columns, limits: Limits, batcher: Batcher) -> None:
    """The paths that ask the model."""
    reader = RequestReader(model, columns, limits)

    async def ask(request: Request, along_chain: bool) -> Response:
        # A client that never finishes its request must not hold its place for ever.
        rows, asked, uploads = await _in_time(reader.read(request), limits.max_seconds)
        if along_chain and max(len(rows), len(uploads)) != 1:
            raise refusal(422, "rows", f"a chain is that of one row, but there are {len(rows)}; send one", "rows")
        with kept_pictures(uploads) as paths:
            try:
                return JSONResponse(await batcher.ask(Question(rows, asked, paths, along_chain), limits.max_seconds))
            except UserError as error:
                raise _without_folders(error, paths) from error

    @app.post(
        "/predict", response_model=Answers, responses=REFUSALS, summary="Predict rows",
        openapi_extra=request_schema(columns, reader.reads_images),
    )  # fmt: skip
    async def predict(request: Request) -> Response:
        """The answer to each row: a point, quantiles, an interval, grades and increments, as far as there are any."""
        return await ask(request, along_chain=False)

    if has_increments(model):

        @app.post(
            "/trajectory", response_model=Steps, responses=REFUSALS, summary="Follow one row along the chain",
            openapi_extra=request_schema(columns, reader.reads_images, one_row=True),
        )  # fmt: skip
        async def trajectory(request: Request) -> Response:
            """What the samples of one row would be answered with at each step from all noise to none."""
            return await ask(request, along_chain=True)


def _without_folders(error: Exception, paths: Sequence[str]) -> RefusedError:
    """What the model says about rows that it cannot answer; where images were kept is nobody's business."""
    message = str(error)
    for path in paths:
        message = message.replace(path, Path(path).name)
    return refusal(422, "rows", message, "rows")


async def _in_time(reading: Any, seconds: float) -> Any:
    try:
        return await asyncio.wait_for(reading, seconds)
    except asyncio.TimeoutError as error:
        message = f"a request must arrive within {seconds:g} s, but it is not whole yet; send it faster"
        raise refusal(408, "time", message, "body") from error


def _add_facts(app: FastAPI, told: dict[str, Any], batcher: Batcher) -> None:
    """The paths that tell about model and server."""

    @app.get("/model", responses={401: REFUSALS[401]}, summary="What the model is")
    async def about() -> dict[str, Any]:
        """Columns with their kinds and ranges or levels, the target's bounds, training, limits and versions."""
        return told

    @app.get("/health", response_model=Health, summary="Whether the server answers")
    async def health() -> Response:
        """Whether the server answers, and how much it has to do; this is open without a token too."""
        return JSONResponse({"status": "ok", "waiting": batcher.n_waiting})


def _add_page(app: FastAPI) -> list[str]:
    """The paths of the page's files, which come with the package; the answer names them."""
    folder = resources.files("diffor.serving.server") / "page"
    files = {entry.name: entry.read_bytes() for entry in folder.iterdir() if Path(entry.name).suffix in MEDIA_TYPES}
    paths = PAGES | {f"/page/{name}": name for name in files if not name.endswith(".html")}
    for path, name in paths.items():
        media_type = MEDIA_TYPES[Path(name).suffix]
        app.add_api_route(path, _file_sender(files[name], media_type), include_in_schema=False, response_model=None)
    return list(paths)


def _file_sender(content: bytes, media_type: str) -> Any:
    async def send_file() -> Response:
        return Response(content, media_type=f"{media_type}; charset=utf-8", headers=SAFE_HEADERS)

    return send_file


async def _answer_refusal(request: Request, error: Exception) -> Response:
    if not isinstance(error, RefusedError):
        raise error
    return refused(error)


async def _answer_wrong_path(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = f"a path of this server must be asked, but {request.method} {request.url.path} is none; see /docs"
    return refused(refusal(status, "path", message))


async def _answer_failure(request: Request, error: Exception) -> Response:
    """What the client reads when the server is at fault; the log has the rest."""
    return refused(refusal(500, "failure", "the server must answer, but it failed; its log says why"))
