"""Functions that are called again: what one remembers of a call must not show in the next."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from dispatching import assert_equal
from dmlcpu.functions.call import FunctionCall

FUNCTIONS = {
    "quantize_linear": "ElementWiseQuantizeLinear",
    "dequantize_linear": "ElementWiseDequantizeLinear",
    "dynamic_quantize_linear": "DynamicQuantizeLinear",
    "quantized_linear_add": "ElementWiseQuantizedLinearAdd",
    "quantized_linear_convolution": "QuantizedLinearConvolution",
    "convolution_integer": "ConvolutionInteger",
    "quantized_linear_matrix_multiply": "QuantizedLinearMatrixMultiply",
    "matrix_multiply_integer": "MatrixMultiplyInteger",
    "matrix_multiply_integer_to_float": "MatrixMultiplyIntegerToFloat",
    "quantized_linear_average_pooling": "QuantizedLinearAveragePooling",
    "quantize": "Quantize",
    "dequantize": "Dequantize",
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "quantized_linear_convolution": {"start_padding": (1, 0), "strides": [2, 1]},
    "convolution_integer": {"end_padding": 1},
    "quantized_linear_average_pooling": {"window_size": 2, "include_padding": True},
    "quantize": {"output_data_type": dmlcpu.TensorDataType.UINT4},
}


def fresh(name: str, *arguments: Any, **options: Any) -> Any:
    """What a function returns that remembers nothing."""
    desc_type = getattr(dmlcpu, f"{FUNCTIONS[name]}OperatorDesc")
    function = getattr(dmlcpu, name).__wrapped__
    return function(FunctionCall(name, desc_type, options.get("device")), *arguments, **options)


def arguments_of(name: str, rng: np.random.Generator, single: Callable[[NDArray[Any]], Any]) -> list[Any]:
    """Arguments of a function by the names of its parameters; those of one element in some form."""

    def argument(parameter: str) -> Any:
        if parameter.endswith("zero_point"):
            dtype = np.int8 if parameter in ("filter_zero_point", "b_zero_point") else np.uint8
            return None if name == "quantize" else single(rng.integers(1, 20, 1).astype(dtype))
        if parameter.endswith("scale"):
            return single(rng.uniform(0.5, 2, 1).astype(np.float32))
        if parameter == "filter":
            return rng.integers(-128, 128, (3, 2, 2, 2)).astype(np.int8)
        if parameter == "bias":
            return rng.integers(-99, 99, 3).astype(np.float32 if "matrix" in name else np.int32)
        if parameter == "b" and "matrix" in name:
            return rng.integers(-128, 128, (4, 3)).astype(np.int8)
        if parameter == "b":
            return rng.integers(-128, 128, (1, 2, 3, 4)).astype(np.int8)
        is_float = name in ("quantize_linear", "dynamic_quantize_linear", "quantize")
        return rng.integers(0, 256, (1, 2, 3, 4)).astype(np.float32 if is_float else np.uint8)

    parameters = inspect.signature(getattr(dmlcpu, name)).parameters.values()
    return [argument(parameter.name) for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


def assert_all_equal(result: Any, expected: Any, explanation: str = "") -> None:
    several = isinstance(expected, tuple)
    assert type(result) is type(expected), explanation
    for one, other in zip(result if several else [result], expected if several else [expected], strict=True):
        assert_equal(one, other, explanation)
        assert one.strides == other.strides, explanation


FORMS: Sequence[Callable[[NDArray[Any]], Any]] = (
    lambda value: value,
    lambda value: value[0],
    lambda value: value.item(),
    lambda value: value.reshape(()),
    lambda value: np.repeat(value, 3)[2::-5],
)


@pytest.mark.parametrize("form", FORMS, ids=["array", "scalar", "number", "0-d", "backwards"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_elements_in_the_same_places(name: str, form: Callable[[NDArray[Any]], Any]) -> None:
    rng = np.random.default_rng(SEED)
    function, options = getattr(dmlcpu, name), ATTRIBUTES.get(name, {})
    for repetition in range(4):
        arguments = arguments_of(name, rng, form)
        expected = fresh(name, *arguments, **options)
        assert_all_equal(function(*arguments, **options), expected, f"positional, {repetition}")
        named = dict(zip(inspect.signature(function).parameters, arguments, strict=False))
        assert_all_equal(function(**named, **options), expected, f"named, {repetition}")
        if isinstance(expected, tuple):
            continue
        out = np.zeros_like(expected)
        assert function(*arguments, **options, out=out) is out
        assert_equal(out, expected, f"out, {repetition}")


@pytest.mark.parametrize("form", FORMS[:4], ids=["array", "scalar", "number", "0-d"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_third_call_is_quick(
    name: str, form: Callable[[NDArray[Any]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(SEED)
    arguments, others = arguments_of(name, rng, form), arguments_of(name, rng, form)
    if form is FORMS[2]:
        others = arguments  # other numbers are another call
    options = ATTRIBUTES.get(name, {})
    expected = fresh(name, *others, **options)
    for _ in range(2):
        getattr(dmlcpu, name)(*arguments, **options)
    monkeypatch.setattr(FunctionCall, "run", None)
    assert_all_equal(getattr(dmlcpu, name)(*others, **options), expected)


def test_arrays_in_other_places() -> None:
    rng = np.random.default_rng(SEED)
    base = rng.normal(0, 50, (6, 8, 10)).astype(np.float32)
    views = (
        base,
        base[::2],
        base[:, ::-1],
        base.transpose(2, 0, 1),
        base[:, :1],
        base[1:, 2:, 3:],
        base[0, 0],
        base[0, 0, 0],
    )
    for repetition in range(3):
        for view in views:
            assert_equal(dmlcpu.quantize_linear(view, 0.5, 9), fresh("quantize_linear", view, 0.5, 9), str(repetition))
        base += 1


def test_numbers_are_told_apart() -> None:
    ones = np.ones(3, np.float32)
    for _ in range(2):
        for scale, code in ((1.0, 1), (0.5, 2), (0.0, 255), (-0.0, 0), (1, 1), (True, 1), (-0.5, 0), (float("inf"), 0)):
            assert dmlcpu.quantize_linear(ones, scale).tolist() == [code] * 3, scale
        for zero_point in (1, 2, 254, True):
            assert dmlcpu.quantize_linear(ones, 1.0, zero_point).tolist() == [1 + zero_point] * 3, zero_point
        with pytest.raises(dmlcpu.BindingError, match="zero_point"):
            dmlcpu.quantize_linear(ones, 1.0, 1.0)
        with pytest.raises(dmlcpu.BindingError, match="zero_point"):
            dmlcpu.quantize_linear(ones, 1.0, 2**64 + 1)
    # More of them than are kept, and then again.
    for _ in range(3):
        for number in range(1, 1400):
            assert dmlcpu.dequantize_linear(np.uint8([2]), float(number))[0] == 2 * number


def test_attributes_are_told_apart() -> None:
    image = np.arange(32, dtype=np.uint8).reshape(1, 1, 4, 8)
    kernel = np.ones((1, 1, 1, 1), np.int8)

    def columns(strides: Any) -> int:
        return dmlcpu.convolution_integer(image, 0, kernel, None, strides=strides).shape[-1]

    strides = [1, 1]
    for step in (1, 2, 4):
        strides[1] = step
        for _ in range(2):
            forms = (strides, tuple(strides), np.array(strides), [1, np.int64(step)])
            assert [columns(form) for form in forms] == [8 // step] * len(forms)
            assert columns(np.int64(step)) == columns(step) == 8 // step
            with pytest.raises(dmlcpu.InvalidDescError):
                columns(float(step))


class Replaced:
    """A number that, when it is asked for, puts another in its place."""

    def __init__(self, place: list[Any]) -> None:
        self.place = place

    def __index__(self) -> int:
        self.place[1] = 1
        return 4


def test_lists_that_change_during_a_call() -> None:
    image, kernel = np.zeros((1, 1, 4, 8), np.uint8), np.ones((1, 1, 1, 1), np.int8)
    for _ in range(4):
        strides: list[Any] = [1, 1]
        strides[1] = Replaced(strides)
        assert dmlcpu.convolution_integer(image, 0, kernel, None, strides=strides).shape[-1] == 2
        for form in ([1, 1], (1, 1)):
            assert dmlcpu.convolution_integer(image, 0, kernel, None, strides=form).shape[-1] == 8


def test_lists_that_another_thread_changes() -> None:
    image, kernel = np.zeros((1, 1, 256, 256), np.uint8), np.ones((1, 1, 1, 1), np.int8)
    strides, stop = [1, 1], Event()

    def change() -> None:
        while not stop.is_set():
            strides[:] = [2, 2]
            strides[:] = [1, 1]

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        try:
            for _ in range(20):
                dmlcpu.convolution_integer(image, 0, kernel, None, strides=strides)
                for step in (1, 2):
                    shape = dmlcpu.convolution_integer(image, 0, kernel, None, strides=[step, step]).shape
                    assert shape[2:] == (256 // step, 256 // step)
        finally:
            stop.set()
        changing.result()


def test_what_is_refused_once_is_refused_again() -> None:
    x = np.zeros((4, 4), np.float32)
    out = np.zeros((4, 4), np.uint8)
    odd = np.zeros(4 * 4 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 4)
    shared = np.zeros(4 * 4 * 4, np.uint8)
    read_only = out.copy()
    read_only.flags.writeable = False
    for _ in range(3):
        dmlcpu.quantize_linear(x, 1.0, out=out)
        assert_equal(dmlcpu.quantize_linear(odd, 1.0, 7), np.full((4, 4), 7, np.uint8))
        for wrong in (read_only, out[:, ::-1], out[:2], out.astype(np.int16), out.tolist()):
            with pytest.raises((dmlcpu.BindingError, dmlcpu.InvalidDescError)):
                dmlcpu.quantize_linear(x, 1.0, out=wrong)
        with pytest.raises(dmlcpu.BindingError):
            dmlcpu.quantize_linear(x.astype(">f4"), 1.0, out=out)
        with pytest.raises(dmlcpu.BindingError, match="overlaps"):
            dmlcpu.quantize_linear(shared.view(np.float32).reshape(4, 4), 1.0, out=shared[:16].reshape(4, 4))


def test_devices_are_told_apart() -> None:
    x = np.arange(-8, 8, dtype=np.float32)
    low = dmlcpu.Device(feature_level=dmlcpu.FeatureLevel.LEVEL_1_0)
    for _ in range(2):
        for isa in dmlcpu.available_isas():
            assert dmlcpu.dynamic_quantize_linear(x, device=dmlcpu.Device(isa=isa)).output_zero_point_tensor == 136
        with pytest.raises(dmlcpu.UnsupportedFeatureLevelError):
            dmlcpu.dynamic_quantize_linear(x, device=low)
        with pytest.raises(TypeError, match="device"):
            dmlcpu.dynamic_quantize_linear(x, device="avx2")  # type: ignore[arg-type]


def test_packed_codes_that_are_copied_at_each_call() -> None:
    """Bytes of two codes each are read one behind the other; those of a view with gaps are copied first."""
    pairs = np.arange(32, dtype=np.uint8) * 7
    expected = dmlcpu.dequantize(pairs[::2].copy(), 0.5, input_data_type=dmlcpu.TensorDataType.UINT4)
    for _ in range(5):
        assert_equal(dmlcpu.dequantize(pairs[::2], 0.5, input_data_type=dmlcpu.TensorDataType.UINT4), expected)


def test_arguments_are_not_kept() -> None:
    x, scale, strides = np.zeros((1, 1, 3, 5), np.float32), np.ones(1, np.float32), [1, 1]
    codes, kernel = x.astype(np.uint8), np.ones((1, 1, 1, 1), np.int8)
    objects = (x, scale, strides, codes, kernel)
    before = [sys.getrefcount(value) for value in objects]
    for _ in range(3):
        dmlcpu.quantize_linear(x, scale)
        dmlcpu.convolution_integer(codes, 0, kernel, None, strides=strides)
    assert [sys.getrefcount(value) for value in objects] == before


def test_threads_call_alike() -> None:
    def codes(number: int) -> list[NDArray[Any]]:
        x = np.full((16, 16), number, np.float32)
        return [dmlcpu.quantize_linear(x, 0.5 + repetition % 7) for repetition in range(300)]

    with ThreadPoolExecutor(4) as pool:
        for number, results in enumerate(pool.map(codes, range(8))):
            for repetition, result in enumerate(results):
                assert (result == np.rint(number / (0.5 + repetition % 7))).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures(name: str) -> None:
    function = getattr(dmlcpu, name)
    assert "call" not in inspect.signature(function).parameters
    assert typing.get_type_hints(function).keys() == {*inspect.signature(function).parameters, "return"}
    with pytest.raises(TypeError, match=f"^{name}: missing a required argument"):
        function()
    with pytest.raises(TypeError, match=f"^{name}: got an unexpected keyword argument 'colour'"):
        function(*arguments_of(name, np.random.default_rng(SEED), FORMS[0]), **ATTRIBUTES.get(name, {}), colour=1)
