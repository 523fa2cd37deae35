"""The numpy reference equals the recordings of DirectML bit for bit. Needs no built library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from golden_cases import FLOAT_PRODUCTS, GOLDEN_OPERATORS, GoldenCase, left_out, load_cases, store_cases
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


EXACT_OPERATORS = [operator for operator in GOLDEN_OPERATORS if operator not in FLOAT_PRODUCTS]
HALF_OPERATORS = [operator for operator in EXACT_OPERATORS if has_half_outputs(operator)]


def test_every_operator_has_recordings() -> None:
    assert len(GOLDEN_OPERATORS) >= 5
    assert all(accepted_cases(operator) for operator in GOLDEN_OPERATORS)


@pytest.mark.parametrize("operator", GOLDEN_OPERATORS)
def test_reference_equals_the_record(operator: str) -> None:
    failures = []
    for golden in accepted_cases(operator):
        masks = left_out(golden)
        for field, values in golden.case.expected().items():
            recorded = golden.case.outputs[field].logical()
            assert (values.dtype, values.shape) == (recorded.dtype, recorded.shape), (golden.name, field)
            wrong = (canonical_bits(values) != canonical_bits(recorded)) & ~masks[field]
            if wrong.any():
                failures.append(f"{golden.name}: {np.count_nonzero(wrong)} of {wrong.size} elements of {field}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("operator", EXACT_OPERATORS)
def test_few_elements_are_left_out(operator: str) -> None:
    total = skipped = 0
    for golden in accepted_cases(operator):
        for field, mask in left_out(golden).items():
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


def real_product(golden: GoldenCase) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The result of a floating product as it would be without rounding, and the sum of its terms' magnitudes."""
    logical = {
        field.removesuffix("_tensor"): None if tensor is None else tensor.logical().astype(np.float64)
        for field, tensor in golden.case.inputs.items()
    }

    def dequantized(name: str, shape: tuple[int, ...]) -> Any:
        codes, scale, zero_point = (logical[field] for field in (name, f"{name}_scale", f"{name}_zero_point"))
        assert codes is not None
        assert scale is not None
        return (codes - (0 if zero_point is None else zero_point.reshape(shape))) * scale.reshape(shape)

    a, b = dequantized("a", (-1, 1)), dequantized("b", (-1,))
    sizes = golden.case.outputs["output_tensor"].sizes
    bias = np.zeros(sizes) if logical["bias"] is None else logical["bias"]
    products, magnitudes = (matrices.reshape(sizes) for matrices in (a @ b, np.abs(a) @ np.abs(b)))
    return products + bias, magnitudes + np.abs(bias)


@pytest.mark.parametrize("operator", FLOAT_PRODUCTS)
def test_float_products_are_near_the_real_result(operator: str) -> None:
    """The record, whose sums are rounded at each of K steps in whatever order, and ours.

    A term has three roundings (two scaled differences and the product), of FLOAT32 each within 2^-24 of it, a sum one
    for each term behind it. A FLOAT16 output was computed from differences cut to 11 bits, then cut itself, before
    and after the bias.
    """
    failures = []
    for golden in accepted_cases(operator):
        real, magnitudes = real_product(golden)
        output = golden.case.outputs["output_tensor"]
        terms = golden.case.tensors["a_tensor"].sizes[-1]  # type: ignore[union-attr]
        bounds = (terms + 5) * 2.0**-24 * magnitudes + 1e-37
        if output.data_type == "FLOAT16":
            bounds = bounds + 2 * 2.0**-10 * magnitudes + 3 * (2.0**-10 * magnitudes + 2.0**-24)
        for whose, values in (("recorded", output.logical()), ("ours", golden.case.expected()["output_tensor"])):
            wrong = np.abs(values.astype(np.float64) - real) > bounds
            if wrong.any():
                failures.append(f"{golden.name}, {whose}: {np.count_nonzero(wrong)} of {wrong.size}")
    assert not failures, "\n".join(failures)


def test_float_products_have_exact_recordings() -> None:
    for operator in FLOAT_PRODUCTS:
        bound = [golden for golden in accepted_cases(operator) if not left_out(golden)["output_tensor"].all()]
        assert len(bound) >= 5


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
