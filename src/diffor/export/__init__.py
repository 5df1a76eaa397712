"""A fitted model's whole answer as one exported program."""

from diffor.export.inputs import program_inputs
from diffor.export.onnx_file import METADATA, export_model
from diffor.export.refusal import ExportError

__all__ = ["METADATA", "ExportError", "export_model", "program_inputs"]
