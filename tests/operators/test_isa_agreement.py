"""Every ISA with every thread count writes the bits that `scalar` with one thread writes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import dmlcpu
from dispatching import assert_equal_outputs, bound_case, dispatch
from operator_samples import SAMPLES
from operator_samples.sample import OperatorSample

# Around the widths of vectors and of unrolled loops; the last one is worth two threads.
LENGTHS = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4099, 65_539)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda sample: sample.operator.name)
def test_every_device_writes_the_bits_of_scalar(
    devices: Mapping[str, dmlcpu.Device], random_numbers: np.random.Generator, sample: OperatorSample, length: int
) -> None:
    scalar = dmlcpu.Device(isa="scalar", num_threads=1)
    for case in sample.cases(random_numbers, length):
        given = bound_case(case)
        expected = dispatch(scalar, given)
        layout = {field: (made.data_type, made.strides) for field, made in case.tensors.items() if made is not None}
        for label, device in devices.items():
            assert_equal_outputs(dispatch(device, given), expected, f"{label}, {layout}")
