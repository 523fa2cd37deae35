"""The library equals the recordings of DirectML on every ISA and with every thread count, gaps included."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from dispatching import bound_case, difference, dispatch, expected_storage, operator_desc
from golden_cases import GOLDEN_OPERATORS, GoldenCase, left_out, load_cases
from operator_case import OperatorCase
from strided_tensor import blank_tensor


@cache
def accepted_cases(operator: str) -> list[tuple[str, OperatorCase, dict[str, NDArray[Any]]]]:
    """Name, case with blank outputs, and the outputs expected in their storage.

    The record counts wherever it binds us, the reference in the few elements that are left out by rule.
    """
    cases = []
    for golden in load_cases(operator):
        if not golden.accepted:
            continue
        masks, ours = left_out(golden), golden.case.expected()
        blanks = {}
        expected = {}
        for field, tensor in golden.case.outputs.items():
            blanks[field] = blank_tensor(tensor.data_type, tensor.sizes, tensor.strides)
            values = np.where(masks[field], ours[field], tensor.logical())
            expected[field] = expected_storage(blanks[field], values)
        case = OperatorCase(operator, {**golden.case.tensors, **blanks}, golden.case.attributes)
        cases.append((golden.name, case, expected))
    return cases


def refused_cases() -> list[GoldenCase]:
    return [golden for operator in GOLDEN_OPERATORS for golden in load_cases(operator) if not golden.accepted]


@pytest.mark.parametrize("ownership", ["bound", "owned"])
@pytest.mark.parametrize("operator", GOLDEN_OPERATORS)
def test_outputs_equal_the_record(device: dmlcpu.Device, operator: str, ownership: str) -> None:
    """Once with every input bound at dispatch, once with all but the first one flagged OWNED_BY_DML."""
    failures = []
    for name, case, expected in accepted_cases(operator):
        later_inputs = [field for field, tensor in case.inputs.items() if tensor is not None][1:]
        storages = dispatch(device, bound_case(case, owned=later_inputs if ownership == "owned" else ()))
        for field, storage in expected.items():
            found = difference(storages[field], storage)
            if found is not None:
                failures.append(f"{name}, {field}: {found}")
    assert not failures, f"{len(failures)} outputs differ:\n" + "\n".join(failures[:50])


@pytest.mark.parametrize("golden", refused_cases(), ids=lambda golden: golden.name)
def test_descs_refused_by_the_record_are_refused(golden: GoldenCase) -> None:
    with pytest.raises(dmlcpu.InvalidDescError):
        dmlcpu.Device().create_operator(operator_desc(golden.case))
