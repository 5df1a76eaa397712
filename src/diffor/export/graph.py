"""Graphs of ONNX operators, written as arithmetic on values.

Written rather than traced: a whole model, its trees, texts and priors with it, takes .05 s; ``torch.onnx.export``
with ``dynamo=True`` takes 2.5 s for one encoder of tables, .8 s for a second one, and knows neither trees nor texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

OPSET, LEARNING_OPSET, IR_VERSION = 20, 3, 10
"""Versions of the operators and of the file, which every onnxruntime from 1.18 on reads."""
LEARNING = "ai.onnx.ml"
"""Domain of the operators that know levels of categories and trees."""
FLOAT, DOUBLE, WHOLE, BYTE, TRUTH, TEXT = (
    np.dtype(kind) for kind in (np.float32, np.float64, np.int64, np.uint8, np.bool_, object)
)


@dataclass(frozen=True)
class Value:
    """A tensor that the program computes; arithmetic on it writes further nodes.

    Plain numbers take the kind of the value that they meet.

    >>> graph = Graph()
    >>> value = graph.input("x", FLOAT, (None, 3))
    >>> (value * 2.0 + 1.0).dtype, [node.op for node in graph.nodes]
    (dtype('float32'), ['Mul', 'Add'])
    """

    graph: Graph
    name: str
    dtype: np.dtype[Any]

    def __add__(self, other: Value | float) -> Value:
        return self.graph.apply("Add", self, self._beside(other))

    def __sub__(self, other: Value | float) -> Value:
        return self.graph.apply("Sub", self, self._beside(other))

    def __mul__(self, other: Value | float) -> Value:
        return self.graph.apply("Mul", self, self._beside(other))

    def __truediv__(self, other: Value | float) -> Value:
        return self.graph.apply("Div", self, self._beside(other))

    def __matmul__(self, other: Value) -> Value:
        return self.graph.apply("MatMul", self, other)

    def __lt__(self, other: Value | float) -> Value:
        return self.graph.apply("Less", self, self._beside(other), dtype=TRUTH)

    def __le__(self, other: Value | float) -> Value:
        return self.graph.apply("LessOrEqual", self, self._beside(other), dtype=TRUTH)

    def __rsub__(self, other: float) -> Value:
        return self.graph.apply("Sub", self._beside(other), self)

    def __rtruediv__(self, other: float) -> Value:
        return self.graph.apply("Div", self._beside(other), self)

    def equals(self, other: Value | float) -> Value:
        """Whether the elements are equal."""
        return self.graph.apply("Equal", self, self._beside(other), dtype=TRUTH)

    def at_least(self, other: Value | float) -> Value:
        """The larger of both."""
        return self.graph.apply("Max", self, self._beside(other))

    def at_most(self, other: Value | float) -> Value:
        """The smaller of both."""
        return self.graph.apply("Min", self, self._beside(other))

    def _beside(self, other: Value | float) -> Value:
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
        bounds = (self.graph.constant(np.asarray(bound, dtype=self.dtype)) for bound in (low, high))
        return self.graph.apply("Clip", self, *bounds)

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

    def normed(self, width: int, scale: Array | None = None, shift: Array | None = None) -> Value:
        """The last axis, of ``width``, with mean 0 and variance 1, then scaled and shifted."""
        # The shift may be left out by the standard, but onnxruntime 1.18 ends the process then.
        weights = np.ones(width) if scale is None else scale, np.zeros(width) if shift is None else shift
        constants = [self.graph.constant(part.astype(np.float32)) for part in weights]
        return self.graph.apply("LayerNormalization", self, *constants, axis=-1, epsilon=1e-5)

    def linear(self, weight: Array, bias: Array) -> Value:
        """``x @ weight.T + bias`` with a layer's weights. **Shape:** ``(n, d)``, ``(w, d)``, ``(w,)`` -> ``(n, w)``."""
        matrix, shift = (
            self.graph.constant(part.astype(np.float32)) for part in (np.ascontiguousarray(weight.T), bias)
        )
        return self.graph.apply("Gemm", self, matrix, shift)


class Node(NamedTuple):
    """One operator with what it reads and writes."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Port(NamedTuple):
    """An input or output of the program; None is an extent that may be any, the number of rows."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


class Graph:
    """A program under construction."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], tuple[str, Array]] = {}

    def input(self, name: str, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> Value:
        """Something that the caller passes."""
        self.inputs.append(Port(name, dtype, shape))
        return Value(self, name, dtype)

    def output(self, name: str, value: Value, shape: tuple[int | None, ...]) -> None:
        """Something that the caller gets."""
        self.nodes.append(Node("Identity", "", (value.name,), (name,), {}))
        self.outputs.append(Port(name, value.dtype, shape))

    def constant(self, array: Array) -> Value:
        """Numbers or texts that are part of the program; equal ones are kept once."""
        content = "\0".join(array.ravel()).encode() if array.dtype == TEXT else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        name, _ = self.constants.setdefault(key, (f"constant_{len(self.constants)}", array))
        return Value(self, name, array.dtype)

    def apply(
        self,
        op: str,
        *inputs: Value,
        dtype: np.dtype[Any] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> Value:
        """The result of an operator, of the kind of its first input unless told otherwise."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(Node(op, domain, tuple(value.name for value in inputs), (name,), attributes))
        return Value(self, name, inputs[0].dtype if dtype is None else dtype)

    def sort(self, rows: Value, width: int) -> tuple[Value, Value]:
        """The ``width`` elements of each row from low to high, and where they stood. **Shape:** ``(n, width)`` each."""
        names = tuple(f"TopK_{len(self.nodes)}_{part}" for part in ("values", "places"))
        size = self.constant(np.array([width], dtype=np.int64))
        self.nodes.append(Node("TopK", "", (rows.name, size.name), names, {"axis": -1, "largest": 0, "sorted": 1}))
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

        graph = helper.make_graph(
            [
                # Some versions of onnxruntime make names of their own from these, so each node has one.
                helper.make_node(
                    node.op, node.inputs, node.outputs, f"node_{place}", "", node.domain, **node.attributes
                )
                for place, node in enumerate(self.nodes)
            ],
            "diffor",
            [_as_proto(port) for port in self.inputs],
            [_as_proto(port) for port in self.outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.values()],
        )
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(LEARNING, LEARNING_OPSET)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION, producer_name="diffor")
        helper.set_model_props(model, metadata)
        checker.check_model(model)
        return bytes(model.SerializeToString())


def _as_proto(port: Port) -> Any:
    from onnx import helper

    shape = ["rows" if extent is None else extent for extent in port.shape]
    return helper.make_tensor_value_info(port.name, helper.np_dtype_to_tensor_dtype(port.dtype), shape)
