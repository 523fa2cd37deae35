"""What the operators that normalize codes are held to, be it rows or groups of channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlcpu
from dispatching import assert_equal, expected_storage
from laid_out import packed
from native_operator import run_native
from strided_tensor import NUMPY_TYPES, StridedTensor, blank_tensor

__all__ = ["Tensors", "assert_codes", "assert_equal_codes_are_the_bias", "attributes_of"]

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
        assert_equal(outputs["output_tensor"], expected, label)


def assert_equal_codes_are_the_bias(
    devices: Mapping[str, dmlcpu.Device],
    rng: np.random.Generator,
    operator: str,
    reference: Callable[..., NDArray[Any]],
    codes: NDArray[np.uint8],
    attribute: tuple[str, int],
) -> None:
    """Of rows or groups of equal codes, whatever the scale, and however small an epsilon, as BERT's is.

    Weights and biases lie along axis 1.
    """
    count = codes.shape[1]
    weight = packed(rng.normal(20, 20, count).astype(np.float32))
    bias = packed(rng.integers(-100, 100, count).astype(np.float32))
    for scale in np.float32([0.01112582, 0.37, 1.3, 1e5]):
        tensors: Tensors = {
            "input_tensor": packed(codes),
            "input_scale_tensor": packed(np.float32([scale])),
            "weight_tensor": weight,
            "bias_tensor": bias,
            "output_zero_point_tensor": packed(np.uint8([128])),
            "output_tensor": blank_tensor("UINT8", codes.shape, None),
        }
        assert_codes(devices, operator, reference, tensors, attribute, 1e-12)
        zero_point, epsilon = np.uint8(128), np.float32(1e-12)
        result = reference(codes, scale, weight.buffer, bias.buffer, epsilon, zero_point, attribute[1], np.uint8)
        expected = bias.buffer.reshape(-1, *(1,) * (codes.ndim - 2)) + 128
        assert (result == expected).all(), scale
