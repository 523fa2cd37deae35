"""Sessions behind onnx's Backend interface, by which onnx runs its conformance tests.

>>> import numpy as np, onnx
>>> node = onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["y"])
>>> run_node(node, [np.float32([1, 2.5]), np.float32(0.5), np.uint8(128)])[0]
array([130, 133], dtype=uint8)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from dmlcpu.errors import BindingError, DmlError
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.models.nodes import short_domain
from dmlcpu.onnx.session import InferenceSession
from dmlcpu.shown_values import counted

__all__ = ["DmlCpuBackend", "PreparedModel", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class PreparedModel(BackendRep):
    """A model ready to run.

    Attributes:
        session: What runs it.
    """

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Run the model on its inputs in order: a sequence, a dictionary by name, or an array if there is one.

        Raises:
            BindingError: There are more or fewer inputs than the model has, or one does not fit.
        """
        if not isinstance(inputs, dict):
            arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            names = [value.name for value in self.session.get_inputs()]
            if len(arrays) != len(names):
                raise BindingError(f"got {counted(len(arrays), 'input')}, expected {len(names)}: {', '.join(names)}")
            inputs = {name: np.asarray(array) for name, array in zip(names, arrays, strict=True)}
        return tuple(self.session.run(None, inputs))


class DmlCpuBackend(Backend):
    """onnx's Backend interface; the functions of this module are its methods."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether a model can run here."""
        try:
            cls.prepare(model, device, **kwargs)
        except DmlError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Return a model ready to run.

        Args:
            model: With its weights inside.
            device: ``"CPU"``.
            kwargs: As ``InferenceSession`` takes them.

        Raises:
            DmlError: The device is another one, or as ``InferenceSession``.
            TypeError: It is no model.
        """
        if not isinstance(model, onnx.ModelProto):
            raise TypeError(f"model: got an object of type {type(model).__name__}, expected an onnx.ModelProto")
        if not cls.supports_device(device):
            raise DmlError(f"got device {device!r}, expected 'CPU'")
        return PreparedModel(InferenceSession(model.SerializeToString(), **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
        """Prepare a model and run it once.

        Raises:
            DmlError: As ``prepare`` and ``PreparedModel.run``.
        """
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """Run one node.

        Args:
            node: Of the domain of ONNX's own operators, or of ``com.microsoft``.
            inputs: An array for each input that is not absent, in order.
            device: ``"CPU"``.
            outputs_info: Types and shapes of the outputs; not needed.
            kwargs: ``opset_version``, of ONNX's operators: by default the newest that onnx knows. Others as
                ``prepare`` takes them.

        Raises:
            DmlError: As ``run_model``.
        """
        version = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        arrays = [np.asarray(array) for array in ([inputs] if isinstance(inputs, np.ndarray) else inputs)]
        names = [name for name in node.input if name]
        if len(names) != len(arrays):
            raise BindingError(f"got {counted(len(arrays), 'input')}, expected {len(names)}: {', '.join(names)}")
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [
                onnx.helper.make_tensor_value_info(
                    name, int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype)), array.shape
                )
                for name, array in zip(names, arrays, strict=True)
            ],
            [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        imports = [onnx.helper.make_opsetid("", version)]
        if short_domain(node.domain):
            imports.append(onnx.helper.make_opsetid(node.domain, 1))
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=imports), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device, such as ``"CPU"`` or ``"CUDA:1"``, is the CPU."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False


is_compatible = DmlCpuBackend.is_compatible
prepare = DmlCpuBackend.prepare
run_model = DmlCpuBackend.run_model
run_node = DmlCpuBackend.run_node
supports_device = DmlCpuBackend.supports_device
