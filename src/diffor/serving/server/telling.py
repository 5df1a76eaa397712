"""What a server tells about itself: its figures, and the document of its paths."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from diffor.serving.server.description import request_schema
from diffor.serving.server.loaded import Loaded
from diffor.serving.server.metrics import counter_lines, gauge_lines


def document(app: FastAPI, loaded: Loaded) -> dict[str, Any]:
    """The OpenAPI document, with the columns of the model that answers now."""
    if loaded.document is None:
        told = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        reads_images = loaded.reader.reads_images
        told["paths"]["/predict"]["post"] |= request_schema(loaded.columns, reads_images)
        if loaded.has_chain:
            told["paths"]["/trajectory"]["post"] |= request_schema(loaded.columns, reads_images, one_row=True)
        else:
            del told["paths"]["/trajectory"]
        loaded.document = told
    return loaded.document


def figures(service: Any) -> str:
    """All figures in the text form that Prometheus reads."""
    current, guard = service.current, service.guard
    loaded, identity = current.loaded, current.loaded.identity
    about = {"name": identity.name, "version": identity.version or "", "hash": identity.hash or "",
             "method": loaded.model.settings_.method}  # fmt: skip
    lines = [
        *service.metrics.to_text(),
        *gauge_lines("diffor_waiting_rows", "Rows that wait for an answer.", [({}, loaded.batcher.n_waiting)]),
        *gauge_lines("diffor_model_info", "The model that answers.", [(about, 1)]),
        *counter_lines("diffor_model_switches_total", "Models that took over from another.",
                       [({}, current.n_switched)]),
        *gauge_lines("diffor_model_is_stale", "Whether the folder holds a newer model that cannot be loaded.",
                     [({}, current.failure is not None)]),
        *loaded.drift.to_text(),
    ]  # fmt: skip
    if guard is not None:
        lines += gauge_lines("diffor_connections", "Clients that are connected.", [({}, len(guard))])
        lines += counter_lines("diffor_connections_sent_away_total", "Connections that lost their place to others, or "
                               "got none.", [({}, guard.n_sent_away)])  # fmt: skip
    return "\n".join(lines) + "\n"
