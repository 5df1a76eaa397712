"""What is said where a model or a setting cannot become part of an exported program."""

from __future__ import annotations

from diffor.errors import UserError


class ExportError(UserError):
    """Something cannot be exported; the message names it and the cure."""
