"""Builds a graph for onnxruntime with onnx.helper; large weights are passed as external initializers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

STANDARD_DOMAIN = ""
# Domain of onnxruntime's fused operators.
MICROSOFT_DOMAIN = "com.microsoft"

OPSETS = {STANDARD_DOMAIN: 17, MICROSOFT_DOMAIN: 1}
IR_VERSION = 8
MAX_INLINE_BYTES = 4096
# Smaller arrays are stored in the graph itself.


class OnnxGraph:
    """An ONNX graph under construction; values are referenced by name."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._external_arrays: dict[str, NDArray[np.generic]] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._value_count = 0

    def add_input(self, name: str, kind: type[np.generic], shape: list[str | int]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, _to_tensor_type(kind), shape))
        return name

    def add_output(self, name: str, kind: type[np.generic], shape: list[str | int]) -> None:
        self._outputs.append(helper.make_tensor_value_info(name, _to_tensor_type(kind), shape))

    def add_constant(self, array: NDArray[np.generic]) -> str:
        name = f"constant{len(self._constants)}"
        array = np.ascontiguousarray(array)
        tensor = onnx.TensorProto(name=name, data_type=_to_tensor_type(array.dtype), dims=array.shape)
        if array.nbytes > MAX_INLINE_BYTES:
            # External initializers are not copied by protobuf and are not subject to its 2 GB limit.
            self._external_arrays[name] = array
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="memory")
        else:
            tensor.raw_data = array.tobytes()
        self._constants.append(tensor)
        return name

    def add_node(
        self,
        kind: str,
        inputs: list[str],
        *,
        domain: str = MICROSOFT_DOMAIN,
        output: str = "",
        **attributes: int | float,
    ) -> str:
        """Add a node with one output and return the output's name."""
        return self.add_node_with_outputs(kind, inputs, [output or self._next_name()], domain=domain, **attributes)[0]

    def add_node_with_outputs(
        self, kind: str, inputs: list[str], outputs: list[str], *, domain: str, **attributes: int | float
    ) -> list[str]:
        outputs = [output or self._next_name() for output in outputs]
        self._nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs

    def create_session(self) -> InferenceSession:
        import onnxruntime

        options = make_session_options()
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in self._external_arrays.values()]
        options.add_external_initializers(list(self._external_arrays), values)
        return onnxruntime.InferenceSession(self._serialise(), options, providers=["CPUExecutionProvider"])

    def _serialise(self) -> bytes:
        graph = helper.make_graph(self._nodes, "embedding", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        serialised: bytes = model.SerializeToString()
        return serialised

    def _next_name(self) -> str:
        self._value_count += 1
        return f"value{self._value_count}"


def make_session_options() -> onnxruntime.SessionOptions:  # type: ignore[name-defined]  # noqa: F821
    """Return options for one thread per run, because batches run in parallel, and without spinning."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return options


def _to_tensor_type(kind: type[np.generic] | np.dtype[np.generic]) -> int:
    number: int = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return number
