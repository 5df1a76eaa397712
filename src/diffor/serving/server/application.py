"""The application: a model behind HTTP, with its limits, its documents and its page."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

try:
    import python_multipart  # noqa: F401
    from fastapi import FastAPI, Request, Response
    from fastapi.openapi.utils import get_openapi
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.routing import Route
except ImportError as error:
    raise ImportError('serving needs FastAPI, uvicorn and python-multipart: pip install "diffor[serve]"') from error

import diffor
from diffor.errors import UserError
from diffor.serving.server.answers import Question
from diffor.serving.server.description import REFUSALS, Answers, Health, Limits, Ready, Steps, request_schema
from diffor.serving.server.gates import SAFE_HEADERS, Gate, HeaderGate, SizeGate, origin_check, token_check
from diffor.serving.server.loaded import Loaded, Service, Watcher
from diffor.serving.server.logs import ROWS, CountingGate
from diffor.serving.server.metrics import TEXT, Metrics, figure
from diffor.serving.server.refusals import Refused, RefusedError, refusal

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES = {"/": "index.html", "/docs": "docs.html"}
OPEN = frozenset({"/health", "/ready"})
"""Paths that need no token, as the page's own files do not, and answer under any name, as balancers use addresses."""


def serve_loaded(
    loaded: Loaded,
    limits: Limits,
    metrics: Metrics,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    watcher: Watcher | None = None,
    write: Callable[[str], object] | None = None,
    say: Callable[[str], object] = print,
) -> FastAPI:
    """An application that serves a loaded model, and its successors where a ``watcher`` finds any.

    With a ``token``, only the page itself, ``/health`` and ``/ready`` are open without it. ``hosts`` are the names
    under which it may be asked (None: any); ``write`` gets a line about each request and ``say`` one about each new
    model.
    """
    service = Service(loaded, limits, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = None if watcher is None else asyncio.create_task(watcher.run(service, say))
        yield
        if watching is not None:
            watching.cancel()
        await service.close()

    app = FastAPI(
        title="DiffoR", version=diffor.__version__, docs_url=None, redoc_url=None, redirect_slashes=False,
        lifespan=lifespan,
        description="Predictions of one model with their whole distribution. Every refusal says in detail, for each "
        "thing that is wrong, where it is and what to do about it.",
    )  # fmt: skip
    app.state.service = service
    _add_answers(app, service)
    _add_facts(app, service)
    open_paths = _add_page(app)
    app.openapi = lambda: document(app, service.loaded)  # type: ignore[method-assign]
    app.add_exception_handler(RefusedError, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_wrong_path)
    app.add_exception_handler(Exception, _answer_failure)
    app.add_middleware(SizeGate, max_bytes=limits.max_bytes)
    if token is not None:
        app.add_middleware(Gate, check=token_check(token), open_paths={*OPEN, *open_paths})
    app.add_middleware(Gate, check=origin_check(hosts), open_paths=OPEN)
    app.add_middleware(CountingGate, metrics=metrics, write=write)
    app.add_middleware(HeaderGate, is_ending=lambda: service.is_ending)
    return app


def _add_answers(app: FastAPI, service: Service) -> None:
    """The paths that ask the model."""
    seconds = service.limits.max_seconds

    async def ask(request: Request, along_chain: bool) -> Response:
        loaded = service.loaded
        with loaded.in_use():
            # A client that never finishes its request must not hold its place for ever.
            content = await _in_time(request, seconds)
            rows, asked, uploads = await service.desk.read(loaded.reader, content, request.headers, seconds)
            if along_chain and max(len(rows), len(uploads)) != 1:
                raise refusal(422, "rows", f"a chain is that of one row, but there are {len(rows)}; send one", "rows")
            if along_chain and (limits := [name for name in rows.side if name in loaded.reader.limits_of_rows]):
                message = f"a chain is not cut, but the request has {limits[0]}; leave it out, or ask /predict"
                raise refusal(422, "limits", message, limits[0])
            async with service.desk.keep(uploads) as paths:
                try:
                    answer = await loaded.batcher.ask(Question(rows, asked, paths, along_chain), seconds)
                except UserError as error:
                    raise _without_folders(error, paths) from error
            request.scope[ROWS] = max(len(rows), len(uploads))
            answer["model"] = asdict(loaded.identity)
            return Response(await service.desk.write(answer), media_type="application/json")

    @app.post("/predict", response_model=Answers, responses=REFUSALS, summary="Predict rows")
    async def predict(request: Request) -> Response:
        """The answer to each row: a point, quantiles, an interval, grades and increments, as far as there are any."""
        return await ask(request, along_chain=False)

    @app.post("/trajectory", response_model=Steps, responses=REFUSALS, summary="Follow one row along the chain")
    async def trajectory(request: Request) -> Response:
        """What the samples of one row would be answered with at each step from all noise to none."""
        if not service.loaded.has_chain:
            raise HTTPException(404)
        return await ask(request, along_chain=True)


def _without_folders(error: Exception, paths: Sequence[str]) -> RefusedError:
    """What the model says about rows that it cannot answer; where images were kept is nobody's business."""
    message = str(error)
    for path in paths:
        message = message.replace(path, Path(path).name)
    return refusal(422, "rows", message, "rows")


async def _in_time(request: Request, seconds: float) -> bytes:
    """The body of a request, if it comes."""
    try:
        return await asyncio.wait_for(request.body(), seconds)
    except asyncio.TimeoutError as error:
        message = f"a request must arrive within {seconds:g} s, but it is not whole yet; send it faster"
        raise refusal(408, "time", message, "body", Connection="close") from error
    except ClientDisconnect as error:
        message = "a request must arrive as a whole, but its connection ended; send it again"
        raise refusal(400, "gone", message, "body", Connection="close") from error


def _add_facts(app: FastAPI, service: Service) -> None:
    """The paths that tell about model and server."""

    @app.get("/model", responses={401: REFUSALS[401]}, summary="What the model is")
    async def about() -> dict[str, Any]:
        """Columns with their kinds and ranges or levels, the target's bounds, training, limits and versions."""
        return service.loaded.told

    @app.get("/health", response_model=Health, summary="Whether the server answers")
    async def health() -> Response:
        """Whether the server answers, and how much it has to do; this is open without a token too."""
        return JSONResponse({"status": "ok", "waiting": service.loaded.batcher.n_waiting})

    @app.get("/ready", response_model=Ready, responses={503: REFUSALS[503]}, summary="Whether to send it requests")
    async def ready() -> Response:
        """Whether the server takes requests: not while it is stopping or has too much to do; open without a token."""
        loaded = service.loaded
        if service.is_ending:
            raise refusal(503, "closing", "the server must be running, but it is stopping; ask another one")
        if loaded.batcher.n_waiting >= service.limits.max_waiting:
            raise refusal(503, "busy", "the server must have room for rows, but too many wait; try again in a moment")
        return JSONResponse({"status": "ready", "model": asdict(loaded.identity)})

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(figures(service), headers={"Content-Type": TEXT})


def _add_page(app: FastAPI) -> list[str]:
    """The paths of the page's files, which come with the package; the answer names them."""
    folder = resources.files("diffor.serving.server") / "page"
    files = {entry.name: entry.read_bytes() for entry in folder.iterdir() if Path(entry.name).suffix in MEDIA_TYPES}
    paths = PAGES | {f"/page/{name}": name for name in files if not name.endswith(".html")}
    for path, name in paths.items():
        media_type = f"{MEDIA_TYPES[Path(name).suffix]}; charset=utf-8"
        file = Response(files[name], media_type=media_type)
        app.router.routes.append(Route(path, file, methods=["GET"], include_in_schema=False))
    return list(paths)


def document(app: FastAPI, loaded: Loaded) -> dict[str, Any]:
    """The OpenAPI document, with the columns of the model that answers now."""
    if loaded.document is None:
        told = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path, one_row in (("/predict", False), ("/trajectory", True)):
            told["paths"][path]["post"] |= request_schema(
                loaded.columns, loaded.reader.reads_images, one_row, loaded.reader.limits_of_rows
            )
        if not loaded.has_chain:
            del told["paths"]["/trajectory"]
        loaded.document = told
    return loaded.document


def figures(service: Service) -> str:
    """All figures in the text form that Prometheus reads."""
    loaded, guard, identity = service.loaded, service.guard, service.loaded.identity
    about: tuple[str, ...] = (identity.name, identity.version or "", identity.hash or "", loaded.model.settings_.method)
    lines = [
        *service.metrics.to_text(),
        *figure("diffor_waiting_rows", "Rows that wait for an answer.", loaded.batcher.n_waiting),
        *figure("diffor_model_info", "The model that answers.", {about: 1}, "name", "version", "hash", "method"),
        *figure("diffor_model_switches_total", "Models that took over from another.", service.n_switched),
        *figure("diffor_model_is_stale", "Whether the folder holds a newer model that cannot be loaded.",
                service.failure is not None),
        *loaded.drift.to_text(),
    ]  # fmt: skip
    if guard is not None:
        lines += figure("diffor_connections", "Clients that are connected.", len(guard))
        lines += figure("diffor_connections_sent_away_total", "Connections that lost their place to others, or got "
                        "none.", guard.n_sent_away)  # fmt: skip
    return "\n".join(lines) + "\n"


async def _answer_refusal(request: Request, error: Any) -> Response:
    return Refused(error)


async def _answer_wrong_path(request: Request, error: Any) -> Response:
    asked = f"{request.method[:20]} {request.url.path[:100]}"
    message = f"a path of this server must be asked, but {asked} is none; see /docs"
    return Refused(refusal(error.status_code, "path", message))


async def _answer_failure(request: Request, error: Exception) -> Response:
    """What the client reads when the server is at fault; the log has the rest."""
    failure = Refused(refusal(500, "failure", "the server must answer, but it failed; its log says why"))
    failure.headers.update(SAFE_HEADERS)  # this answer passes no gate
    return failure
