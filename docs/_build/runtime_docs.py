"""For mkdocstrings: classes as they are at run time, since settings write constructors and their documentation."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from typing import Any

import griffe

ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?([\w]+)`")


def plain_markdown(text: str) -> str:
    """Roles of Sphinx as code, single backticks where there are two, and doctests set apart.

    >>> plain_markdown("a :class:`~diffor.core.prediction.Prediction` of ``(n,)``")
    'a `Prediction` of `(n,)`'
    """
    return ROLE.sub(r"`\1`", text).replace("``", "`")


def live(path: str) -> Any:
    """The object that a dotted path names."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ImportError(path)


class RuntimeDocs(griffe.Extension):
    """Docstrings of classes as their constructors have them; fields that are arguments are no attributes."""

    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Take documentation and constructor of dataclasses whose settings write them."""
        if not any("with_parameters" in str(one.value) for one in cls.decorators):
            return
        found = live(cls.path)
        cls.docstring = griffe.Docstring(plain_markdown(inspect.cleandoc(found.__doc__ or "")), parent=cls)
        for one in dataclasses.fields(found):
            cls.members.pop(one.name, None)
        arguments = griffe.Parameters(*(self._parameter(one) for one in inspect.signature(found).parameters.values()))
        cls.set_member("__init__", griffe.Function("__init__", parameters=arguments, parent=cls))

    @staticmethod
    def _parameter(one: inspect.Parameter) -> griffe.Parameter:
        kind = griffe.ParameterKind.keyword_only
        if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            kind = griffe.ParameterKind.positional_or_keyword
        return griffe.Parameter(one.name, kind=kind, default=repr(one.default))

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Turn what Sphinx would read into what Markdown reads."""
        if obj.docstring is not None:
            obj.docstring.value = plain_markdown(obj.docstring.value)
