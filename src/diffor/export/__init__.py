"""A fitted model's whole answer as one exported program."""

from diffor.export.graph import ExportError
from diffor.export.onnx_file import METADATA, export_model, program_inputs

__all__ = ["METADATA", "ExportError", "export_model", "program_inputs"]
