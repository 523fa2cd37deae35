"""Views of placeholders: what they stand for in a graph, or why they are refused."""

from __future__ import annotations

import errno
import os
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import dmlcpu
from dmlcpu import (
    ExecutionFlags,
    GraphBuilder,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    input_tensor,
)
from sample_graphs import Devices, Rng, codes

U8, F32 = TensorDataType.UINT8, TensorDataType.FLOAT32
SIZES = (4, 6)
STRIDES: list[tuple[int, int] | None] = [None, (1, 4), (8, 1), (2, 9)]

VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda array: array[:],
    "transposed": lambda array: array.T,
    "first rows": lambda array: array[:2],
    "first columns": lambda array: array[:, :3],
    "every other row": lambda array: array[::2],
    "some, transposed": lambda array: array[::2, ::3].T,
    "one row": lambda array: array[0],
    "a diagonal": np.diagonal,
    "more axes": lambda array: array[:, None, :, None],
    "split axes": lambda array: array.reshape(2, 2, 3, 2),
    "repeated": lambda array: np.broadcast_to(array, (3, 4, 6)),
    "repeated, transposed": lambda array: np.broadcast_to(array.T[:, None], (6, 2, 4)),
    "windows": lambda array: sliding_window_view(array, (2, 3)),
}


def laid_out(array: Any, strides: tuple[int, int] | None) -> Any:
    """The elements with these strides, in memory that ends with the last of them."""
    desc = TensorDesc(U8, array.shape, strides=strides)
    memory = np.zeros(
        1 + sum((s - 1) * step for s, step in zip(array.shape, desc.element_strides, strict=True)), array.dtype
    )
    view = as_strided(memory, array.shape, [step * array.itemsize for step in desc.element_strides])
    view[...] = array
    return view


@pytest.mark.parametrize("strides", STRIDES, ids=str)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_views_stand_for_the_same_elements(
    devices: Devices, random_numbers: Rng, view: Callable[[Any], Any], strides: tuple[int, int] | None
) -> None:
    """Of inputs at dispatch and at initialize, and of what a node computes."""
    x = laid_out(codes(random_numbers, SIZES), strides)
    y = laid_out(codes(random_numbers, SIZES), strides)
    for label, device in devices.items():
        builder = GraphBuilder(device)
        desc = TensorDesc(U8, SIZES, strides=strides)
        bound = input_tensor(builder, 0, desc)
        owned = input_tensor(builder, 1, TensorDesc(U8, SIZES, strides=strides, flags=TensorFlags.OWNED_BY_DML))
        computed = dmlcpu.quantized_linear_add(bound, 1.0, 3, owned, 1.0, 9, 2.0, 7)
        expected = [x, y, dmlcpu.quantized_linear_add(x, 1.0, 3, y, 1.0, 9, 2.0, 7)]
        outputs = []
        for number, expression in enumerate((bound, owned, computed)):
            # The same call on an array is remembered; it must not be taken for one on placeholders.
            dmlcpu.dequantize_linear(view(np.zeros_like(expected[number])), 0.5, 3, device=device)
            outputs.append(dmlcpu.dequantize_linear(view(expression.placeholder()), 0.5, 3))
        graph = builder.build(ExecutionFlags.NONE, outputs)
        graph.initialize(input_1=y)
        for result, array in zip(graph.dispatch(input_0=x), expected, strict=True):
            wanted = (view(array).astype(np.float32) - 3) * np.float32(0.5)
            np.testing.assert_array_equal(result, wanted, label)


PLAIN_VIEWS: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "its rows": lambda array: np.asarray(array)[:1],
    "broadcast_to": lambda array: np.broadcast_to(array, (3, 4, 6)),
    "broadcast_arrays": lambda array: np.broadcast_arrays(array, np.empty((3, 1, 1)))[0],
    "as_strided": lambda array: as_strided(array, (2, 6), (6, 1), subok=False),
    "sliding_window_view": lambda array: sliding_window_view(array, (2, 3)),
    "view": lambda array: array.view(np.ndarray),
}


@pytest.mark.parametrize("view", PLAIN_VIEWS.values(), ids=PLAIN_VIEWS.keys())
def test_plain_views_are_never_taken_for_arrays(view: Callable[[Any], Any], random_numbers: Rng) -> None:
    """Of which numpy keeps no more than the base, after calls on arrays have been remembered."""
    x = codes(random_numbers, SIZES)
    x.flags.writeable = False  # as the memory of placeholders
    for _ in range(3):
        wanted = dmlcpu.dequantize_linear(view(x), 0.5, 3)
        assert isinstance(wanted, np.ndarray)
    expression = input_tensor(GraphBuilder(), 0, TensorDesc.from_array(x))
    for _ in range(3):
        plain = view(expression.placeholder())
        assert type(plain) is np.ndarray
        recorded = dmlcpu.dequantize_linear(plain, 0.5, 3)
        assert isinstance(recorded, dmlcpu.Expression)
    result = expression.builder.build(ExecutionFlags.NONE, [recorded]).dispatch(input_0=x)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("data_type", [TensorDataType.UINT4, TensorDataType.INT4])
def test_views_of_4_bit_elements(random_numbers: Rng, data_type: TensorDataType) -> None:
    pairs = codes(random_numbers, (12,))
    elements = dmlcpu.dequantize(pairs, 1.0, input_data_type=data_type, sizes=SIZES)
    for view in (lambda array: array.T, lambda array: array[:3, :5], lambda array: array.reshape(3, 8)):
        builder = GraphBuilder()
        x = input_tensor(builder, 0, TensorDesc(data_type, SIZES))
        outputs = [dmlcpu.dequantize(view(x.placeholder()), 1.0)]
        result = builder.build(ExecutionFlags.NONE, outputs).dispatch(input_0=pairs)
        np.testing.assert_array_equal(result, view(elements))
    with pytest.raises(
        dmlcpu.BindingError, match=rf"got elements of {data_type.name}, expected elements of at least a b"
    ):
        dmlcpu.dequantize_linear(x.placeholder().view(np.uint8), 1.0)


@pytest.mark.parametrize("name", ["uint4", "int4"])
def test_structured_arrays_are_of_no_data_type(name: str) -> None:
    """Whatever their field is called: placeholders of 4-bit elements alone are structured."""
    array = np.zeros(3, [(name, np.uint8)])
    with pytest.raises(TypeError, match="no tensor data type is"):
        TensorDesc.from_array(array)
    with pytest.raises(dmlcpu.BindingError, match=r"^dequantize: input: got elements of dtype\("):
        dmlcpu.dequantize(array, 0.5)


def test_flat_placeholders_are_read_as_the_desc_says(random_numbers: Rng) -> None:
    """As an array in one dimension would be that is bound to a tensor."""
    x = codes(random_numbers, (24,))
    for sizes, strides in (((4, 6), None), ((4, 6), (1, 4)), ((3, 2), (9, 2)), ((24,), (0,))):
        builder = GraphBuilder()
        flat = input_tensor(builder, 0, TensorDesc.from_array(x)).placeholder()
        desc = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
            input_tensor=TensorDesc(U8, sizes, strides=strides),
            scale_tensor=TensorDesc(F32, sizes, strides=(0,) * len(sizes)),
            output_tensor=TensorDesc(F32, sizes),
        )
        outputs = builder.add_operator(desc, {"input_tensor": flat, "scale_tensor": np.float32([0.5])})
        result = builder.build(ExecutionFlags.NONE, outputs).dispatch(input_0=x)
        wanted = as_strided(x, sizes, desc.input_tensor.element_strides) * np.float32(0.5)
        np.testing.assert_array_equal(result, wanted)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "later rows": (
        lambda array: array[1:],
        "got 18 bytes from byte 6 of a placeholder on, expected a view of its 24 bytes",
    ),
    "later columns": (
        lambda array: array[:, 1:],
        "got 23 bytes from byte 1 of a placeholder on, expected a view of its",
    ),
    "more than there is": (lambda array: as_strided(array, (5, 6)), "got 30 bytes from byte 0 of a placeholder on"),
    "backwards": (lambda array: array[::-1], "got a placeholder's view of strides (-6, 1), expected strides that"),
    "a copy": (lambda array: array.copy(), "got a copy of a placeholder, expected a view of it, or the expression"),
    "a selection": (
        lambda array: array[[0, 2]],
        "got a copy of a placeholder, expected a view of it, or the expression",
    ),
}


@pytest.mark.parametrize(("view", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_stands_for_nothing_is_refused(view: Callable[[Any], Any], message: str) -> None:
    builder = GraphBuilder()
    placeholder = input_tensor(builder, 0, TensorDesc(U8, SIZES)).placeholder()
    with pytest.raises(dmlcpu.BindingError, match=f"^dequantize_linear: input: {re.escape(message)}"):
        dmlcpu.dequantize_linear(view(placeholder), 0.5)
    with pytest.raises(dmlcpu.BindingError, match=f"^dequantize_linear: zero_point: {re.escape(message)}"):
        dmlcpu.dequantize_linear(np.zeros_like(view(placeholder), subok=False), 0.5, view(placeholder))


def test_a_copy_is_no_constant_of_an_operator() -> None:
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(U8, SIZES))
    desc = dmlcpu.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=x.desc,
        scale_tensor=TensorDesc(F32, SIZES, strides=(0, 0)),
        output_tensor=TensorDesc(F32, SIZES),
    )
    expected = "ELEMENT_WISE_DEQUANTIZE_LINEAR: input_tensor: got a copy of a placeholder, expected a view of it"
    for copied in (x.placeholder().copy(), x.placeholder()[[0, 1, 2, 3]]):
        with pytest.raises(dmlcpu.BindingError, match=f"^{expected}") as caught:
            builder.add_operator(desc, {"input_tensor": copied, "scale_tensor": np.float32([0.5])})
        assert caught.value.field == "input_tensor"


def test_placeholders_have_no_elements() -> None:
    placeholder = input_tensor(GraphBuilder(), 0, TensorDesc(U8, SIZES)).placeholder()
    reads: list[Callable[[], Any]] = [
        lambda: placeholder[0, 0],
        lambda: list(placeholder[0]),
        lambda: placeholder.item(0),
        lambda: placeholder[:1, :1].item(),
        placeholder.tolist,
    ]
    for read in reads:
        with pytest.raises(TypeError, match=r"^a placeholder has no elements to read, only views$"):
            read()


def test_placeholders_are_not_computed_with() -> None:
    placeholder = input_tensor(GraphBuilder(), 0, TensorDesc(U8, SIZES)).placeholder()
    computations: dict[str, Callable[[], Any]] = {
        "add": lambda: placeholder + 1,
        "multiply": lambda: 2 * placeholder,
        "equal": lambda: placeholder == placeholder,
        "maximum": lambda: np.maximum(np.zeros(SIZES, np.uint8), placeholder),
    }
    for name, compute in computations.items():
        message = f"^numpy.{name}: a placeholder has no elements to compute with, only views$"
        with pytest.raises(TypeError, match=message):
            compute()


@pytest.mark.parametrize(
    ("data_type", "name"), [(U8, "uint8"), (TensorDataType.INT4, "dmlcpu.int4"), (F32, "float32")], ids=str
)
def test_placeholders_are_shown_by_their_layout(data_type: TensorDataType, name: str) -> None:
    placeholder = input_tensor(GraphBuilder(), 0, TensorDesc(data_type, SIZES)).placeholder()
    shown = f"<placeholder of {name} of shape (6, 4)>"
    assert (repr(placeholder.T), str(placeholder.T), f"{placeholder.T}") == (shown,) * 3


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": np.copy,
    "concatenate": lambda array: np.concatenate([array[:, :1], array[:, 1:]], 1),
    "stack": lambda array: np.stack([array[0], array[1]]),
    "pad": lambda array: np.pad(array, 1),
    "roll": lambda array: np.roll(array, 1),
    "take": lambda array: np.take(array, [0, 1], 0),
    "repeat": lambda array: np.repeat(array, 2, 0),
    "tile": lambda array: np.tile(array, (2, 1)),
    "where": lambda array: np.where(np.ones(SIZES, np.bool_), np.zeros(SIZES, np.uint8), array),
    "copyto": lambda array: np.copyto(np.zeros(SIZES, np.uint8), array),
    "array_equal": lambda array: np.array_equal(array, array),
}


@pytest.mark.parametrize("function", COPIES.values(), ids=COPIES.keys())
def test_functions_that_read_elements_are_refused(function: Callable[[Any], Any]) -> None:
    """The copies would be constants of zeros."""
    function(np.zeros(SIZES, np.uint8))
    placeholder = input_tensor(GraphBuilder(), 0, TensorDesc(U8, SIZES)).placeholder()
    with pytest.raises(TypeError, match=r"^numpy\.\w+: a placeholder has no elements to read or copy, only views$"):
        function(placeholder)


UNREAD: dict[str, Callable[[Any], Any]] = {
    "transpose": np.transpose,
    "swapaxes": lambda array: np.swapaxes(array, 0, 1),
    "moveaxis": lambda array: np.moveaxis(array, 0, 1),
    "rollaxis": lambda array: np.rollaxis(array, 1),
    "reshape": lambda array: np.reshape(array, (3, 8)),
    "ravel": np.ravel,
    "expand_dims": lambda array: np.expand_dims(array, 1),
    "squeeze": lambda array: np.squeeze(array[:1]),
    "atleast_3d": np.atleast_3d,
    "split": lambda array: np.split(array, 2)[0],
    "hsplit": lambda array: np.hsplit(array, 2)[0],
    "flip": lambda array: np.flip(np.flip(array, 1), 1),
    "rot90": lambda array: np.rot90(array, 4),
    "diagonal": np.diagonal,
}


@pytest.mark.parametrize("function", UNREAD.values(), ids=UNREAD.keys())
def test_functions_that_return_views_are_taken(function: Callable[[Any], Any], random_numbers: Rng) -> None:
    x = codes(random_numbers, SIZES)
    expression = input_tensor(GraphBuilder(), 0, TensorDesc(U8, SIZES))
    recorded: Any = dmlcpu.dequantize_linear(function(expression.placeholder()), 0.5, 3)
    result = expression.builder.build(ExecutionFlags.NONE, [recorded]).dispatch(input_0=x)
    np.testing.assert_array_equal(result, dmlcpu.dequantize_linear(function(x), 0.5, 3))


def test_new_arrays_like_placeholders_are_plain() -> None:
    placeholder = input_tensor(GraphBuilder(), 0, TensorDesc(U8, SIZES)).placeholder()
    assert (np.shape(placeholder), np.ndim(placeholder), np.size(placeholder)) == (SIZES, 2, 24)
    for array in (np.zeros_like(placeholder), np.full_like(placeholder, 7), np.empty_like(placeholder)):
        assert type(array) is np.ndarray
        assert (array.shape, array.dtype) == (SIZES, np.uint8)
    np.testing.assert_array_equal(np.full_like(placeholder, 7), np.full(SIZES, 7, np.uint8))


def test_placeholders_take_up_no_memory() -> None:
    """However far apart their elements are: here a tensor of 12 GiB."""
    builder = GraphBuilder()
    x = input_tensor(builder, 0, TensorDesc(F32, (4, 1), strides=(2**30, 1)))
    tracemalloc.start()
    try:
        y = dmlcpu.quantize_linear(x, 0.5, 3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert y.desc.sizes == (4, 1)
    assert peak < 2**20


def test_short_memory_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pages(*_: Any) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    x = input_tensor(GraphBuilder(), 0, TensorDesc(F32, (4, 1), strides=(2**30, 1)))
    monkeypatch.setattr("dmlcpu.graph.placeholders.mmap", no_pages)
    with pytest.raises(MemoryError, match=f"^no place for the {3 * 2**32 + 4} bytes of a placeholder"):
        dmlcpu.quantize_linear(x, 0.5, 3)


def test_placeholders_can_only_be_read() -> None:
    for sizes in (SIZES, (2**7, 2**7), (2**10, 2**10)):
        placeholder = input_tensor(GraphBuilder(), 0, TensorDesc(F32, sizes)).placeholder()
        assert not placeholder.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            np.asarray(placeholder).setflags(write=True)
