"""Requests read to questions: JSON with rows, or a form with images, and what is asked about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import pandas as pd
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from diffor.errors import UserError, did_you_mean
from diffor.serving.server.answers import DEFAULT_COVERAGE, DEFAULT_LEVELS, Asked
from diffor.serving.server.columns import Columns
from diffor.serving.server.description import Limits
from diffor.serving.server.pictures import Upload, check_pictures
from diffor.serving.server.refusals import refusal, show
from diffor.serving.server.rows import CheckedRows, check_rows

OPTIONS = ("quantiles", "coverage", "increments")
MULTIPART = "multipart/form-data"


class RequestReader:
    """Reads requests to one model and refuses those that it could not answer."""

    def __init__(self, model: Any, columns: Columns, limits: Limits) -> None:
        self.columns, self.limits = columns, limits
        self.reads_images = model.images_ is not None
        self.is_graded = hasattr(model, "classes_")
        self.method = model.settings_.method
        self.has_quantiles = model.has_distribution and not self.is_graded
        self.has_interval = model.has_distribution or model.conformal_ is not None

    async def read(self, request: Request) -> tuple[CheckedRows, Asked, list[Upload]]:
        """Rows, what is asked about them, and images where the model reads these."""
        is_form = request.headers.get("content-type", "").lower().startswith(MULTIPART)
        if is_form and not self.reads_images:
            raise refusal(
                415, "content_type", "this model reads rows of a table, but a form was sent; send JSON as "
                '{"rows": [{column: value}]}', "body",
            )  # fmt: skip
        if self.reads_images and not is_form:
            raise refusal(
                415, "content_type", "this model reads images, but no form was sent; send multipart/form-data "
                "with files called images", "body",
            )  # fmt: skip
        body, uploads = await self._read_form(request) if is_form else (parse_json(await request.body()), [])
        known = ("rows", *OPTIONS) if self.columns.known else OPTIONS
        if not isinstance(body, dict):
            raise refusal(422, "body", f'a request must be an object as {{"rows": []}}, but got {show(body)}', "body")
        for name in body:
            if name not in known:
                raise refusal(
                    422, "unknown_option", f"a request has {', '.join(known)}, but {show(name)} is none of them"
                    f"{did_you_mean(name[:100], known)}; leave it out", name[:100],
                )  # fmt: skip
        return self._read_rows(body, uploads), self._read_asked(body), uploads

    def _read_rows(self, body: Mapping[str, Any], uploads: list[Upload]) -> CheckedRows:
        if self.reads_images:
            check_pictures(uploads, self.limits.max_images)
            if not self.columns.known:
                return CheckedRows(pd.DataFrame(index=range(len(uploads))), {})
        if "rows" not in body:
            message = 'a request must have rows, but it has none; send {"rows": [{column: value}]}'
            raise refusal(422, "missing_rows", message, "rows")
        rows = check_rows(body["rows"], self.columns, self.limits.max_rows)
        if self.reads_images and len(rows) != len(uploads):
            message = f"each image must have its row, but there are {len(uploads)} images and {len(rows)} rows"
            raise refusal(422, "rows", message, "rows")
        return rows

    async def _read_form(self, request: Request) -> tuple[dict[str, Any], list[Upload]]:
        await request.body()  # of bounded size, so that the form is read from memory
        fields: dict[str, Any] = {}
        uploads: list[Upload] = []
        try:
            async with request.form(max_files=1000, max_part_size=self.limits.max_bytes) as form:
                for name, value in form.multi_items():
                    if isinstance(value, UploadFile):
                        if name != "images":
                            raise refusal(422, "images", f"files must be called images, but got {show(name)}", name)
                        uploads.append((value.filename or "", await value.read()))
                    else:
                        fields[name] = parse_json(value.encode("utf-8", "backslashreplace"), name)
        except HTTPException as error:
            raise refusal(422, "form", f"a form must be whole, but {error.detail}", "body") from error
        return fields, uploads

    def _read_asked(self, body: Mapping[str, Any]) -> Asked:
        levels = self._read_levels(body["quantiles"]) if "quantiles" in body else DEFAULT_LEVELS
        coverage = self._read_coverage(body["coverage"]) if "coverage" in body else DEFAULT_COVERAGE
        increments = body.get("increments", True)
        if not isinstance(increments, bool):
            message = f"increments must be true or false, but got {show(increments)}"
            raise refusal(422, "increments", message, "increments")
        return Asked(levels if self.has_quantiles else None, coverage if self.has_interval else None, increments)

    def _read_levels(self, levels: Any) -> tuple[float, ...]:
        if not self.has_quantiles:
            what = "predicts grades; read their probabilities" if self.is_graded else "predicts a point; leave them out"
            message = f"quantiles need a distribution of values, but method {self.method!r} {what}"
            raise refusal(422, "quantiles", message, "quantiles")
        is_list = isinstance(levels, list) and 0 < len(levels) <= self.limits.max_levels
        if not is_list or not all(_is_number(level) and 0 <= level <= 1 for level in levels):
            raise refusal(
                422, "quantiles", f"quantiles must be a list of 1 to {self.limits.max_levels} levels from 0 to 1, "
                f"but got {show(levels)}", "quantiles",
            )  # fmt: skip
        return tuple(float(level) for level in levels)

    def _read_coverage(self, coverage: Any) -> float:
        if not self.has_interval:
            raise refusal(
                422, "coverage", f"an interval needs a distribution, but method {self.method!r} predicts a point; "
                "leave coverage out, or fit with --calibration", "coverage",
            )  # fmt: skip
        if not _is_number(coverage) or not 0 < coverage < 1:
            message = f"coverage must lie between 0 and 1, as 0.9 does, but got {show(coverage)}"
            raise refusal(422, "coverage", message, "coverage")
        return float(coverage)


def parse_json(text: bytes, place: str = "body") -> Any:
    """The JSON value that a text spells, or a refusal that says where it is wrong."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise refusal(422, "json", f"{place} must be JSON, but it is nested too deeply", place) from error
    except ValueError as error:
        raise refusal(422, "json", f"{place} must be JSON, but {error}", place) from error


def _refuse_constant(name: str) -> NoReturn:
    raise UserError(f"{name} is no JSON; send null for what is not known")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
