"""What the operators that normalize codes are held to, be it rows or groups of channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from dispatching import difference, expected_storage
from native_operator import run_native
from strided_tensor import NUMPY_TYPES, StridedTensor

__all__ = ["Tensors", "assert_codes", "attributes_of"]

Tensors = dict[str, "StridedTensor | None"]


def attributes_of(name: str, number: int, epsilon: float) -> dict[str, list[int]]:
    """An operator's own attribute, and the bits of its epsilon."""
    return {name: [number], "epsilon": [int(np.float32(epsilon).view(np.uint32))]}


def assert_codes(
    devices: Mapping[str, dmlcpu.Device],
    operator: str,
    reference: Callable[..., NDArray[Any]],
    tensors: Tensors,
    attribute: tuple[str, int],
    epsilon: float,
) -> None:
    """The bits of the reference, which takes the attribute's number behind the zero point, on every device."""
    x, scale, weight, bias, zero_point, output = tensors.values()
    assert None not in (x, scale, weight, bias, output)
    values = reference(
        x.logical(),
        scale.buffer[0],
        weight.buffer,
        bias.buffer,
        np.float32(epsilon),
        None if zero_point is None else zero_point.buffer[0],
        attribute[1],
        NUMPY_TYPES[output.data_type],
    )
    expected = expected_storage(output, values)
    for label, device in devices.items():
        outputs = run_native(device, operator, tensors, attributes_of(*attribute, epsilon))
        assert (found := difference(outputs["output_tensor"], expected)) is None, f"{label}: {found}"
