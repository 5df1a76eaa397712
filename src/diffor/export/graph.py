"""Graphs of ONNX operators, written as arithmetic on values.

Written rather than traced: a whole model, its trees, texts and priors with it, takes .05 s; ``torch.onnx.export``
with ``dynamo=True`` takes 2.5 s for one encoder of tables, .8 s for a second one, and knows neither trees nor texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.errors import UserError

Array = NDArray[Any]
Shape = tuple[int | None, ...]
"""Of an input or output of the program; None is an extent that may be any, the number of rows."""

OPSET, LEARNING_OPSET, IR_VERSION = 20, 3, 10
"""Versions of the operators and of the file, which every onnxruntime from 1.18 on reads."""
LEARNING = "ai.onnx.ml"
"""Domain of the operators that know levels of categories and trees."""
FLOAT, DOUBLE, WHOLE, BYTE, TRUTH, TEXT = (
    np.dtype(kind) for kind in (np.float32, np.float64, np.int64, np.uint8, np.bool_, object)
)


class ExportError(UserError):
    """Something cannot be exported; the message names it and the cure."""


def _operator(op: str, dtype: np.dtype[Any] | None = None) -> Callable[[Value, Value | float], Value]:
    """An operator of two values, or of a value and a number, which takes the kind of the value."""

    def apply(one: Value, other: Value | float) -> Value:
        return one.graph.apply(op, one, one.beside(other), dtype=dtype)

    return apply


@dataclass(frozen=True)
class Value:
    """A tensor that the program computes; arithmetic on it writes further nodes.

    Plain numbers take the kind of the value that they meet.

    >>> graph = Graph()
    >>> value = graph.input("x", FLOAT, (None, 3))
    >>> (value * 2.0 + 1.0).dtype, [node.op_type for node in graph.nodes]
    (dtype('float32'), ['Mul', 'Add'])
    """

    graph: Graph
    name: str
    dtype: np.dtype[Any]

    __add__, __sub__, __mul__, __truediv__ = _operator("Add"), _operator("Sub"), _operator("Mul"), _operator("Div")
    __matmul__, __lt__, __le__ = _operator("MatMul"), _operator("Less", TRUTH), _operator("LessOrEqual", TRUTH)
    equals = _operator("Equal", TRUTH)
    """Whether the elements are equal."""
    at_least, at_most = _operator("Max"), _operator("Min")
    """The larger and the smaller of both."""

    def __rsub__(self, other: float) -> Value:
        return self.beside(other) - self

    def __rtruediv__(self, other: float) -> Value:
        return self.beside(other) / self

    def beside(self, other: Value | float) -> Value:
        """Another value, or a number as one of the same kind."""
        return other if isinstance(other, Value) else self.graph.constant(np.asarray(other, dtype=self.dtype))

    def cast(self, dtype: np.dtype[Any]) -> Value:
        """The same numbers as another kind."""
        from onnx import helper

        if dtype == self.dtype:
            return self
        return self.graph.apply("Cast", self, dtype=dtype, to=helper.np_dtype_to_tensor_dtype(dtype))

    def reshape(self, *shape: int) -> Value:
        """The same elements in another shape; -1 is the one extent that follows from the others."""
        return self.graph.apply("Reshape", self, self.graph.constant(np.array(shape, dtype=np.int64)))

    def transpose(self, *order: int) -> Value:
        """The axes in another order."""
        return self.graph.apply("Transpose", self, perm=list(order))

    def take(self, places: Sequence[int] | NDArray[np.int64] | Value | int, axis: int = 1) -> Value:
        """Elements at some places along an axis, which a single place removes."""
        if not isinstance(places, Value):
            wanted = np.asarray(places, dtype=np.int64)
            if wanted.ndim and len(wanted) and (np.diff(wanted) == 1).all():  # neighbours are copied together
                ends = ([wanted[0]], [wanted[-1] + 1], [axis])
                return self.graph.apply("Slice", self, *(self.graph.constant(np.array(end)) for end in ends))
            places = self.graph.constant(wanted)
        return self.graph.apply("Gather", self, places, axis=axis)

    def clip(self, low: float, high: float) -> Value:
        """The value, not below ``low`` and not above ``high``."""
        return self.graph.apply("Clip", self, self.beside(low), self.beside(high))

    def sum(self, axis: int, keepdims: bool = False) -> Value:
        """Sum along an axis."""
        axes = self.graph.constant(np.array([axis], dtype=np.int64))
        return self.graph.apply("ReduceSum", self, axes, keepdims=int(keepdims))

    def max(self, axis: int) -> Value:
        """Largest along an axis, which is kept."""
        axes = self.graph.constant(np.array([axis], dtype=np.int64))
        return self.graph.apply("ReduceMax", self, axes, keepdims=1)

    def cummax(self, width: int) -> Value:
        """The largest so far along the last axis, of ``width``. **Shape:** ``(a, b, width)``, kept."""
        # A window that reaches back to the first element: quicker than any loop, for there is a kernel for it.
        return self.graph.apply("MaxPool", self, kernel_shape=[width], pads=[width - 1, 0], strides=[1])

    def sigmoid(self) -> Value:
        """The logistic function."""
        return self.graph.apply("Sigmoid", self)

    def silu(self) -> Value:
        """``x * sigmoid(x)``."""
        return self * self.sigmoid()

    def relu(self) -> Value:
        """What is above zero."""
        return self.graph.apply("Relu", self)

    def normed(self, scale: Array, shift: Array) -> Value:
        """The last axis with mean 0 and variance 1, then scaled and shifted."""
        constants = [self.graph.constant(part.astype(np.float32)) for part in (scale, shift)]
        return self.graph.apply("LayerNormalization", self, *constants, axis=-1, epsilon=1e-5)

    def linear(self, weight: Array, bias: Array) -> Value:
        """``x @ weight.T + bias`` with a layer's weights. **Shape:** ``(n, d)``, ``(w, d)``, ``(w,)`` -> ``(n, w)``."""
        parts = [np.ascontiguousarray(weight.T), bias]
        return self.graph.apply("Gemm", self, *(self.graph.constant(part.astype(np.float32)) for part in parts))


class Graph:
    """A program under construction."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], tuple[str, Array]] = {}

    def input(self, name: str, dtype: np.dtype[Any], shape: Shape) -> Value:
        """Something that the caller passes."""
        self.inputs.append(_port(name, dtype, shape))
        return Value(self, name, dtype)

    def output(self, name: str, value: Value, shape: Shape) -> None:
        """Something that the caller gets."""
        self._add("Identity", [value.name], [name])
        self.outputs.append(_port(name, value.dtype, shape))

    def _add(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        from onnx import helper

        # Some versions of onnxruntime make names of their own from these, so each node has one.
        self.nodes.append(helper.make_node(op, inputs, outputs, f"node_{len(self.nodes)}", **attributes))

    def constant(self, array: Array) -> Value:
        """Numbers or texts that are part of the program; equal ones are kept once."""
        content = "\0".join(array.ravel()).encode() if array.dtype == TEXT else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        name, _ = self.constants.setdefault(key, (f"constant_{len(self.constants)}", array))
        return Value(self, name, array.dtype)

    def apply(
        self, op: str, *inputs: Value, dtype: np.dtype[Any] | None = None, domain: str = "", **attributes: Any
    ) -> Value:
        """The result of an operator, of the kind of its first input unless told otherwise."""
        name = f"{op}_{len(self.nodes)}"
        self._add(op, [value.name for value in inputs], [name], domain=domain, **attributes)
        return Value(self, name, inputs[0].dtype if dtype is None else dtype)

    def sort(self, rows: Value, width: int) -> tuple[Value, Value]:
        """The ``width`` elements of each row from low to high, and where they stood. **Shape:** ``(n, width)`` each."""
        names = [f"TopK_{len(self.nodes)}_{part}" for part in ("values", "places")]
        size = self.constant(np.array([width], dtype=np.int64))
        self._add("TopK", [rows.name, size.name], names, axis=-1, largest=0, sorted=1)
        return Value(self, names[0], rows.dtype), Value(self, names[1], WHOLE)

    def concat(self, parts: Sequence[Value], axis: int = 1) -> Value:
        """Parts side by side."""
        return parts[0] if len(parts) == 1 else self.apply("Concat", *parts, axis=axis)

    def where(self, condition: Value, one: Value, other: Value) -> Value:
        """Elements of ``one`` where the condition holds, of the other elsewhere."""
        return self.apply("Where", condition, one, other, dtype=one.dtype)

    def to_bytes(self, metadata: dict[str, str]) -> bytes:
        """The finished program as the content of an ONNX file."""
        from onnx import checker, helper, numpy_helper

        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.values()]
        graph = helper.make_graph(self.nodes, "diffor", self.inputs, self.outputs, constants)
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(LEARNING, LEARNING_OPSET)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION, producer_name="diffor")
        helper.set_model_props(model, metadata)
        checker.check_model(model)
        return bytes(model.SerializeToString())


def _port(name: str, dtype: np.dtype[Any], shape: Shape) -> Any:
    from onnx import helper

    extents = ["rows" if extent is None else extent for extent in shape]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), extents)
