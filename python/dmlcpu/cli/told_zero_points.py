"""Zero points of 0 that a model leaves out, told.

Without one onnxruntime 1.32 takes INT8 codes for UINT8 where it fuses their dequantization with a product of more than
two axes and the sum behind that, and is off by as much as codes can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["with_zero_points"]


def with_zero_points(proto: Any, types: Mapping[str, np.dtype[Any]], values: Mapping[str, NDArray[Any]]) -> Any:
    """Return a model whose dequantizations of INT8 codes have zero points, as far as their scales are known.

    Args:
        proto: The model; itself if none is left out.
        types: Of elements that nodes write.
        values: Constants and inputs.
    """
    import onnx

    told: Any = None
    for index, node in enumerate(proto.graph.node):
        if node.op_type != "DequantizeLinear" or any(node.input[2:]):
            continue
        codes, scale = node.input[0], values.get(node.input[1])
        dtype = values[codes].dtype if codes in values else types.get(codes)
        if dtype != np.int8 or scale is None:
            continue
        if told is None:
            told = onnx.ModelProto()
            told.CopyFrom(proto)
        name = f"{node.output[0]}/zero_point"
        told.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(scale.shape, np.int8), name))
        told.graph.node[index].input[2:] = [name]
    return proto if told is None else told
