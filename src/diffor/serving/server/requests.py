"""Requests read to questions: JSON with rows, or a form with images, and what is asked about them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from diffor.errors import UserError, did_you_mean
from diffor.serving.server.answers import DEFAULT_COVERAGE, DEFAULT_LEVELS, Asked
from diffor.serving.server.columns import Columns
from diffor.serving.server.description import Limits
from diffor.serving.server.pictures import Upload, check_pictures
from diffor.serving.server.refusals import refusal, show
from diffor.serving.server.rows import CheckedRows, as_number, check_rows

OPTIONS = ("quantiles", "coverage", "increments", "lower", "upper")
JSON = "application/json"
MULTIPART = "multipart/form-data"
MAX_PARTS = 1000
"""Files of a form, and fields beside them."""
SMALL_BYTES = 2**15
"""A body of this size is read in so little time that nothing else needs to go on meanwhile."""
SPARE_VALUES = 10_000
"""Values beside those of the most rows that a request may have: mistakes within these are named one by one."""


class RequestReader:
    """Reads requests to one model and refuses those that it could not answer."""

    def __init__(self, model: Any, columns: Columns, limits: Limits) -> None:
        self.columns, self.limits = columns, limits
        self.reads_images = model.images_ is not None
        self.is_graded = hasattr(model, "classes_")
        self.method = model.settings_.method
        self.has_quantiles = model.has_distribution and not self.is_graded
        self.has_interval = model.has_distribution or model.conformal_ is not None
        self.model = model
        self.limits_of_rows = () if self.is_graded else ("lower",) if model.learns_share else ("lower", "upper")
        """What a request may say about the range of its rows' values."""
        self.max_values = 2 * limits.max_rows * (1 + len(columns.known)) + SPARE_VALUES

    def read(self, content: bytes, headers: Headers) -> tuple[CheckedRows, Asked, list[Upload]]:
        """Rows, what is asked about them, and images where the model reads these, from a request's body."""
        # Browsers send forms and plain text to any server without asking it first, but never JSON.
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != (MULTIPART if self.reads_images else JSON):
            message = f"this model reads rows of a table, but the content is {show(kind)}; send JSON as " \
                      f'{{"rows": [{{column: value}}]}} with the header Content-Type: {JSON}'  # fmt: skip
            if self.reads_images:
                message = f"this model reads images, but the content is {show(kind)}; send {MULTIPART} with files " \
                          "called images"  # fmt: skip
            raise refusal(415, "content_type", message, "body")
        uploads: list[Upload] = []
        if self.reads_images:
            body, uploads = self._read_form(content, headers)
        else:
            body = parse_json(content, self.max_values)
        if not isinstance(body, dict):
            raise refusal(422, "body", f'a request must be an object as {{"rows": []}}, but got {show(body)}', "body")
        known = ("rows", *OPTIONS) if self.columns.known else OPTIONS
        other = next((name for name in body if name not in known), None)
        if other is not None:
            message = f"a request has {', '.join(known)}, but {show(other)} is none of them" \
                      f"{did_you_mean(other[:100], known)}; leave it out"  # fmt: skip
            raise refusal(422, "unknown_option", message, other[:100])
        rows, asked = self._read_rows(body, uploads), self._read_asked(body)
        return self._limited(rows, body), asked, uploads

    def _limited(self, rows: CheckedRows, body: Mapping[str, Any]) -> CheckedRows:
        """The rows with their limits, if the request has any."""
        limits = {name: self._read_limit(name, body[name], len(rows)) for name in ("lower", "upper") if name in body}
        if not limits:
            return rows
        side = rows.side | limits
        try:
            self.model.row_limits(len(rows), side.get("lower"), side.get("upper"))
        except UserError as error:
            raise refusal(422, "limits", str(error), next(iter(limits))) from error
        return replace(rows, side=side)

    def _read_limit(self, name: str, given: Any, n_rows: int) -> NDArray[np.float64]:
        """A limit of each row, NaN where there is none. **Shape:** ``(n,)``."""
        if name not in self.limits_of_rows:
            cure = "leave it out" if self.is_graded else "send it in the rows, as the column that fit was told"
            what = "predicts grades" if self.is_graded else "reads it from a column"
            raise refusal(422, "limits", f"{name} is a limit of values, but this model {what}; {cure}", name)
        each = given if isinstance(given, list) else [given] * n_rows
        known = [value is None or as_number(value) is not None for value in each]
        if len(each) != n_rows or not all(known):
            shown = f"{len(each)} of them" if all(known) else show(each[known.index(False)])
            message = (
                f"{name} must be a number, or a list with a number or null for each of the {n_rows} rows, but got "
                f"{shown}; null stands for no limit"
            )
            raise refusal(422, "limits", message, name)
        return np.array([np.nan if value is None else float(value) for value in each])

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

    def _read_form(self, content: bytes, headers: Headers) -> tuple[dict[str, Any], list[Upload]]:
        async def stream() -> AsyncGenerator[bytes, None]:
            yield content
            yield b""

        most = {"max_files": MAX_PARTS, "max_fields": MAX_PARTS, "max_part_size": self.limits.max_bytes}
        try:
            # The parser is one of event loops, but has all that it could wait for.
            items = asyncio.run(MultiPartParser(headers, stream(), **most).parse()).multi_items()
        except (MultiPartException, KeyError, ValueError) as error:  # the last two: a damaged boundary or name
            reason = str(error) if isinstance(error, MultiPartException) else "its head cannot be read"
            raise refusal(422, "form", f"a form must be whole, but {reason}", "body") from error
        uploads: list[Upload] = []
        fields: dict[str, Any] = {}
        other = None
        for name, value in items:
            if isinstance(value, str):
                fields[name] = value.encode("utf-8", "backslashreplace")
            else:
                other = name if name != "images" else other
                with value.file as file:
                    uploads.append((value.filename or "", file.read()))
        if other is not None:
            raise refusal(422, "images", f"files must be called images, but got {show(other)}", other)
        return {name: parse_json(text, self.max_values, name) for name, text in fields.items()}, uploads

    @property
    def defaults(self) -> Asked:
        """What those get who ask for nothing; None where the model has no such thing."""
        return Asked(DEFAULT_LEVELS if self.has_quantiles else None, DEFAULT_COVERAGE if self.has_interval else None)

    def _read_asked(self, body: Mapping[str, Any]) -> Asked:
        asked = self.defaults
        if "quantiles" in body:
            asked = replace(asked, levels=self._read_levels(body["quantiles"]))
        if "coverage" in body:
            asked = replace(asked, coverage=self._read_coverage(body["coverage"]))
        increments = body.get("increments", True)
        if not isinstance(increments, bool):
            message = f"increments must be true or false, but got {show(increments)}"
            raise refusal(422, "increments", message, "increments")
        return replace(asked, increments=increments)

    def _read_levels(self, levels: Any) -> tuple[float, ...]:
        most = self.limits.max_levels
        if not self.has_quantiles:
            what = "predicts grades; read their probabilities" if self.is_graded else "predicts a point; leave them out"
            message = f"quantiles need a distribution of values, but method {self.method!r} {what}"
        elif isinstance(levels, list) and 0 < len(levels) <= most and all(map(_is_share, levels)):
            return tuple(float(level) for level in levels)
        else:
            message = f"quantiles must be a list of 1 to {most} levels from 0 to 1, but got {show(levels)}"
        raise refusal(422, "quantiles", message, "quantiles")

    def _read_coverage(self, coverage: Any) -> float:
        if not self.has_interval:
            message = f"an interval needs a distribution, but method {self.method!r} predicts a point; leave " \
                      "coverage out, or fit with --calibration"  # fmt: skip
        elif _is_share(coverage) and 0 < coverage < 1:
            return float(coverage)
        else:
            message = f"coverage must lie between 0 and 1, as 0.9 does, but got {show(coverage)}"
        raise refusal(422, "coverage", message, "coverage")


class PatientDecoder(json.JSONDecoder):
    """Reads JSON in steps of a few milliseconds, and gives up on more values than any request needs.

    The standard library's quick reader holds the interpreter's lock until it has read everything, seconds for the worst
    8 MiB, and nothing else is answered meanwhile. Here it reads plain rows and single values, one at a time; what holds
    these is read by the library's reader in Python, between whose steps others go on.
    """

    scan_once: Any

    def __init__(self, max_values: int) -> None:
        super().__init__(parse_constant=_refuse_constant)
        self.max_values = self.n_left = max_values
        self.is_within_row = False
        self.scan_quickly: Any = self.scan_once
        self.parse_array = lambda start, *more: JSONArray(start, self._scan_value)
        self.parse_object = lambda start, strict, scan, *more: JSONObject(start, strict, self._scan_value, *more)
        self.scan_once = self.scan_slowly = py_make_scanner(self)

    def _count(self, n: int) -> None:
        self.n_left -= n
        if self.n_left < 0:
            message = f"a request must have at most {self.max_values:,} values, but it has more; send it in several"
            raise refusal(413, "too_many_values", message, "body")

    def _scan_value(self, text: str, start: int) -> Any:
        self._count(1)
        if text[start : start + 1] not in ("{", "["):
            return self.scan_quickly(text, start)
        if self.is_within_row or text[start] == "[":
            return self.scan_slowly(text, start)
        row = text[start : text.find("}", start, start + SMALL_BYTES) + 1]
        if row and "[" not in row and "{" not in row[1:]:
            with contextlib.suppress(ValueError, StopIteration):  # the brace may belong to a text
                cells, length = self.scan_quickly(row, 0)
                self._count(len(cells))
                return cells, start + length
        self.is_within_row = True
        try:
            return self.scan_slowly(text, start)
        finally:
            self.is_within_row = False


def parse_json(text: bytes, max_values: int, place: str = "body") -> Any:
    """The JSON value that a text spells, or a refusal that says where it is wrong."""
    try:
        if len(text) <= SMALL_BYTES:
            return json.loads(text, parse_constant=_refuse_constant)
        return PatientDecoder(max_values).decode(text.decode(json.detect_encoding(text), "surrogatepass"))
    except RecursionError as error:
        raise refusal(422, "json", f"{place} must be JSON, but it is nested too deeply", place) from error
    except UnicodeDecodeError as error:
        message = f"{place} must be JSON in UTF-8, but byte {error.start} is none; save or send it as UTF-8"
        raise refusal(422, "json", message, place) from error
    except ValueError as error:
        raise refusal(422, "json", f"{place} must be JSON, but {error}", place) from error


def _refuse_constant(name: str) -> NoReturn:
    raise UserError(f"{name} is no JSON; send null for what is not known")


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
