"""Descriptions of plans, and descs of convolutions and products whose plans tests look at."""

from __future__ import annotations

from typing import Any

import pytest

import dmlcpu
from bound_arrays import compiled
from dmlcpu import Device
from operator_samples import CONVOLUTION, MATRIX_MULTIPLY_INTEGER, changed, tensor

__all__ = ["SMALL_PRODUCTS", "convolution", "kernels", "lines", "product"]

# The instruction set of small products of convolutions where that is not the row's.
SMALL_PRODUCTS = {"amx_int8": "avx512_vnni"}


def kernels(isa: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The instruction set of each family's kernel."""
    monkeypatch.setenv("DMLCPU_ISA", isa)
    return dict(dmlcpu.info().kernels)


def lines(device: Device, desc: dmlcpu.OperatorDesc) -> dict[str, str]:
    """The properties of a description by name, each of which it tells once."""
    told = [line.split(": ", 1) for line in compiled(device, desc).describe().splitlines()]
    properties = {name: value for name, value in told}
    assert len(properties) == len(told)
    return properties


def convolution(
    channels: int, outputs: int, window: int, data_type: str = "UINT8", size: int = 28, **changes: Any
) -> Any:
    """Of size x size pixels in NHWC memory, as large as they were."""
    groups, pad = changes.get("group_count", 1), window // 2

    def pixels(channels: int, data_type: str) -> Any:
        strides = (size * size * channels, 1, size * channels, channels)
        return tensor(data_type, 1, channels, size, size, strides=strides)

    return changed(
        CONVOLUTION,
        input_tensor=pixels(channels, data_type),
        input_zero_point_tensor=tensor(data_type, 1, 1, 1, 1),
        filter_tensor=tensor("INT8", outputs, channels // groups, window, window),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        filter_zero_point_tensor=None,
        bias_tensor=None,
        output_tensor=pixels(outputs, "UINT8"),
        output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
        **{
            "group_count": 1,
            "start_padding": (pad, pad),
            "end_padding": (pad, pad),
            "strides": (1, 1),
            "dilations": (1, 1),
            **changes,
        },
    )


def product(rows: int, flags: int = 0, a_type: str = "UINT8", k: int = 256) -> Any:
    return changed(
        MATRIX_MULTIPLY_INTEGER,
        a_tensor=tensor(a_type, 1, 1, rows, k),
        a_zero_point_tensor=None,
        b_tensor=tensor("INT8", 1, 1, k, 512, flags=flags),
        b_zero_point_tensor=None,
        output_tensor=tensor("INT32", 1, 1, rows, 512),
    )
