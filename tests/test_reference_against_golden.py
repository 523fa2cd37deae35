"""The numpy reference equals the recordings of DirectML bit for bit. Needs no built library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from golden_cases import GOLDEN_OPERATORS, GoldenCase, left_out, load_cases, store_cases
from operator_case import canonical_bits
from strided_tensor import blank_tensor

# Of the elements that are not FLOAT16, at most so many may have a subnormal behind them. A rule that leaves out more
# than the recordings were made to show would let a wrong reference pass.
LARGEST_SHARE_LEFT_OUT = 0.05


def accepted_cases(operator: str) -> list[GoldenCase]:
    return [golden for golden in load_cases(operator) if golden.accepted]


def has_half_outputs(operator: str) -> bool:
    outputs = (output for golden in accepted_cases(operator) for output in golden.case.outputs.values())
    return any(output.data_type == "FLOAT16" for output in outputs)


HALF_OPERATORS = [operator for operator in GOLDEN_OPERATORS if has_half_outputs(operator)]


def test_every_operator_has_recordings() -> None:
    assert len(GOLDEN_OPERATORS) >= 5
    assert all(accepted_cases(operator) for operator in GOLDEN_OPERATORS)


@pytest.mark.parametrize("operator", GOLDEN_OPERATORS)
def test_reference_equals_the_record(operator: str) -> None:
    failures = []
    for golden in accepted_cases(operator):
        masks = left_out(golden.case)
        for field, values in golden.case.expected().items():
            recorded = golden.case.outputs[field].logical()
            assert (values.dtype, values.shape) == (recorded.dtype, recorded.shape), (golden.name, field)
            wrong = (canonical_bits(values) != canonical_bits(recorded)) & ~masks[field]
            if wrong.any():
                failures.append(f"{golden.name}: {np.count_nonzero(wrong)} of {wrong.size} elements of {field}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("operator", GOLDEN_OPERATORS)
def test_few_elements_are_left_out(operator: str) -> None:
    total = skipped = 0
    for golden in accepted_cases(operator):
        for field, mask in left_out(golden.case).items():
            if golden.case.outputs[field].data_type != "FLOAT16":
                total += mask.size
                skipped += np.count_nonzero(mask)
    assert skipped <= LARGEST_SHARE_LEFT_OUT * total


@pytest.mark.parametrize("operator", HALF_OPERATORS)
def test_half_results_are_the_record_or_its_neighbour(operator: str) -> None:
    """The recording device truncates, so its result is ours or the next FLOAT16 value toward zero."""
    failures = []
    for golden in accepted_cases(operator):
        for field, values in golden.case.expected().items():
            if golden.case.outputs[field].data_type != "FLOAT16":
                continue
            recorded = golden.case.outputs[field].logical()
            truncated = np.nextafter(values, np.float16(0))
            allowed = [canonical_bits(recorded) == canonical_bits(candidate) for candidate in (values, truncated)]
            if not np.logical_or(*allowed).all():
                failures.append(f"{golden.name}: {field}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("operator", GOLDEN_OPERATORS)
def test_gaps_of_recorded_outputs_are_untouched(operator: str) -> None:
    for golden in accepted_cases(operator):
        for field, tensor in golden.case.outputs.items():
            blank = blank_tensor(tensor.data_type, tensor.sizes, tensor.strides)
            untouched = blank.holding(tensor.logical())
            assert untouched.tobytes() == tensor.buffer.tobytes(), (golden.name, field)


def test_stored_cases_load_as_they_were(tmp_path: Path) -> None:
    """Writes the recordings once more: the files are what the writer of today makes of them."""
    operator = "ELEMENT_WISE_DEQUANTIZE_LINEAR"
    original = load_cases(operator)
    store_cases(operator, original, tmp_path)
    for written, stored in zip(load_cases(operator, tmp_path), original, strict=True):
        assert (written.name, written.accepted) == (stored.name, stored.accepted)
        assert written.case.attributes == stored.case.attributes
        for field, tensor in stored.case.tensors.items():
            copy = written.case.tensors[field]
            if tensor is None or copy is None:
                assert copy is tensor
                continue
            assert (copy.data_type, copy.sizes, copy.strides) == (tensor.data_type, tensor.sizes, tensor.strides)
            assert copy.buffer.tobytes() == tensor.buffer.tobytes()
