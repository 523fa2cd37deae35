"""What the native module refuses by itself: its memory safety rests on no check of Python's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pytest

from dmlcpu import _core
from dmlcpu.enums import TensorDataType
from dmlcpu.graph.native_graph import ValueKind

Tensor = tuple[str, Sequence[int]]


def not_called(*_: Any) -> NoReturn:
    raise AssertionError


def packed(sizes: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def bind(
    operator: str,
    tensors: Mapping[str, Tensor | None],
    attributes: Mapping[str, Sequence[int]],
    strides: Mapping[str, Sequence[int]],
) -> None:
    rows: list[Any] = []
    for name, tensor in tensors.items():
        if tensor is None:
            rows.append(None)
            continue
        data_type, sizes = tensor
        row = (int(TensorDataType[data_type]), sizes, strides.get(name, packed(sizes)), False, name == "output")
        rows.append(row)
    names = [(name, None) for name in tensors]
    _core.bind_operator(operator, names, rows, attributes, "scalar", 1, not_called, not_called)


WINDOW = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
PRODUCT: dict[str, Tensor | None] = {
    "a": ("INT32", (2, 3)),
    "a_scale": ("FLOAT32", (1, 1)),
    "a_zero_point": ("INT32", (1, 1)),
    "b": ("INT16", (3, 4)),
    "b_scale": ("FLOAT32", (1, 1)),
    "b_zero_point": ("INT16", (1, 1)),
    "bias": ("FLOAT32", (2, 4)),
    "output": ("FLOAT32", (2, 4)),
}
NARROW_PRODUCT: dict[str, Tensor | None] = {
    **PRODUCT,
    "a": ("UINT8", (2, 3)),
    "a_zero_point": None,
    "b": ("INT8", (3, 4)),
    "b_zero_point": None,
}


@pytest.mark.parametrize(
    ("product", "changed"),
    [
        (PRODUCT, {"a_zero_point": ("UINT8", (1, 1))}),
        (PRODUCT, {"b_zero_point": ("UINT8", (1, 1))}),
        (PRODUCT, {"bias": ("FLOAT16", (2, 4))}),
        (NARROW_PRODUCT, {"bias": ("FLOAT16", (2, 4))}),
    ],
)
def test_products_read_elements_of_one_size(
    product: Mapping[str, Tensor | None], changed: Mapping[str, Tensor | None]
) -> None:
    bind("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", product, {}, {})
    with pytest.raises(ValueError, match="data type"):
        bind("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", {**product, **changed}, {}, {})


@pytest.mark.parametrize("operator", ["MATRIX_MULTIPLY_INTEGER", "FLOAT_PRODUCT"])
def test_batches_of_products(operator: str) -> None:
    """A right operand that has fewer matrices is repeated, one by one; any other number of them is none."""
    of_codes = operator == "MATRIX_MULTIPLY_INTEGER"
    kind, result = ("UINT8", "INT32") if of_codes else ("FLOAT32", "FLOAT32")

    def product(a: tuple[int, ...], b: tuple[int, ...]) -> dict[str, Tensor | None]:
        tensors: dict[str, Tensor | None] = {"a": (kind, (*a, 2, 3)), "a_zero_point": None, "b": (kind, (*b, 3, 4))}
        tensors |= {"b_zero_point": None, "output": (result, (4, 6, 2, 4))}
        return tensors if of_codes else {name: tensor for name, tensor in tensors.items() if tensor is not None}

    for repeated in ((), (1,), (6,), (1, 1), (4, 1), (1, 6), (4, 6)):
        bind(operator, product((4, 6), repeated), {}, {})
    for a, b in (((4, 6), (4,)), ((4, 6), (2, 6)), ((4, 6), (4, 3)), ((4, 6), (6, 4)), ((1, 6), (4, 6)), ((), (4, 6))):
        with pytest.raises(ValueError, match="do not fit together"):
            bind(operator, product(a, b), {}, {})


def test_products_of_fewer_tensors_and_more() -> None:
    """What is missing at the end is none; what is absent behind the output changes nothing."""
    for count in range(1, len(PRODUCT)):
        with pytest.raises(ValueError, match="lacks a required tensor"):
            bind("MATRIX_MULTIPLY_INTEGER_TO_FLOAT", dict([*PRODUCT.items()][:count]), {}, {})
    a, b = np.float32([[1, 2, 3]]), np.float32([[4], [5], [6]])
    rows: list[Any] = [
        (int(TensorDataType.FLOAT32), shape, (shape[1], 1), False, shape == (1, 1))
        for shape in ((1, 3), (3, 1), (1, 1))
    ]
    names = [(name, None) for name in ("a", "b", "output", "absent")]
    product = _core.bind_operator("FLOAT_PRODUCT", names, [*rows, None], {}, "scalar", 1, not_called, tuple)
    assert product.dispatch({"a": a, "b": b}).tolist() == [[32]]


def test_products_whose_terms_no_steps_can_have() -> None:
    product: dict[str, Tensor | None] = {"a": ("UINT8", (1, 2**63 - 1)), "a_zero_point": None}
    product |= {"b": ("UINT8", (2**63 - 1, 1)), "b_zero_point": None, "output": ("INT32", (1, 1))}
    with pytest.raises(MemoryError, match=r"^MATRIX_MULTIPLY_INTEGER: .* beyond any memory$"):
        bind("MATRIX_MULTIPLY_INTEGER", product, {}, {"a": (0, 0), "b": (0, 0)})


@pytest.mark.parametrize("height", [2**32, 2**63 - 1])
def test_sizes_of_images_are_in_range(height: int) -> None:
    """An axis that repeats takes no memory, however long it is."""
    repeated = {"input": (1, 1, 0, 1)}
    one: Tensor = ("FLOAT32", (1, 1, 1, 1))
    convolution: dict[str, Tensor | None] = {
        "input": ("UINT8", (1, 1, height, 1)),
        "input_scale": one,
        "input_zero_point": None,
        "filter": ("UINT8", (1, 1, 1, 1)),
        "filter_scale": one,
        "filter_zero_point": None,
        "bias": None,
        "output_scale": one,
        "output_zero_point": None,
        "output": ("UINT8", (1, 1, 1, 1)),
    }
    steps = {"strides": (2**32 - 1, 1)}
    with pytest.raises(ValueError, match="out of range"):
        bind("QUANTIZED_LINEAR_CONVOLUTION", convolution, {**WINDOW, **steps, "group_count": (1,)}, repeated)
    pooling = {
        name: convolution[name]
        for name in ("input", "input_scale", "input_zero_point", "output_scale", "output_zero_point", "output")
    }
    attributes = {**WINDOW, **steps, "window_size": (1, 1), "include_padding": (0,)}
    with pytest.raises(ValueError, match="out of range"):
        bind("QUANTIZED_LINEAR_AVERAGE_POOLING", pooling, attributes, repeated)


def test_elements_of_outputs_have_places_of_their_own() -> None:
    """Repeated rows of an output would be as many as there are numbers, and written by several threads at once."""
    for rows in (2, 2**63 - 1):
        product: dict[str, Tensor | None] = {
            "a": ("FLOAT32", (rows, 1)),
            "b": ("FLOAT32", (1, 1)),
            "output": ("FLOAT32", (rows, 1)),
        }
        for repeated in ((0, 1), (0, 2**40)):
            with pytest.raises(ValueError, match="one place"):
                bind("FLOAT_PRODUCT", product, {}, {"a": (0, 1), "output": repeated})


@pytest.mark.parametrize("kernel", [1, 2**20])
def test_images_that_no_memory_has_are_not_staged(kernel: int) -> None:
    """One float, repeated: its copy with the channels innermost would have more bytes than can be counted."""
    length, steps = 2**30, 2**28
    convolution: dict[str, Tensor | None] = {
        "input": ("FLOAT32", (1, 4, length, length)),
        "filter": ("FLOAT32", (1, 4, kernel, 1)),
        "bias": None,
        "output": ("FLOAT32", (1, 1, length - kernel + 1, steps)),
    }
    strides = {"input": (0, 0, 0, 0), "filter": (0, 0, 0, 0)}
    with pytest.raises(MemoryError, match=r"^FLOAT_CONVOLUTION: .* beyond any memory$"):
        bind("FLOAT_CONVOLUTION", convolution, {**WINDOW, "strides": (1, 4), "group_count": (1,)}, strides)


def bind_graph(values: Sequence[Any], nodes: Sequence[Any]) -> _core.BoundGraph:
    return _core.bind_graph(_core.new_graph(values, nodes), "scalar", 1, not_called, not_called)


def test_nodes_of_graphs_write_something() -> None:
    values = [(int(ValueKind.INPUT), "x", int(TensorDataType.UINT8), (1,), (1,))]
    for operator in ("MAX_POOLING", "ELEMENT_WISE_QUANTIZED_LINEAR_ADD"):
        with pytest.raises(ValueError, match="writes no value"):
            bind_graph(values, [(operator, "node", (0,), (), {})])


def test_stages_of_graphs_have_their_operands() -> None:
    values = [(int(kind), name, int(TensorDataType.UINT8), (1, 4, 2, 2), None) for kind, name in ((0, "x"), (1, "y"))]
    for operator in ("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", "CODE_TABLE"):
        for inputs in ((), (0,)):
            with pytest.raises(ValueError, match=f"^node node: {operator}"):
                bind_graph(values, [(operator, "node", inputs, (1,), {})])


@pytest.mark.parametrize("number", [-251, 0, 9, 256 + int(TensorDataType.UINT8), 2**31 - 1])
def test_data_types_have_numbers(number: int) -> None:
    tensor = (number, (4,), (1,), False)
    rows: list[Any] = [(*tensor, False), (*tensor, True)]
    with pytest.raises(ValueError, match="data type"):
        _core.bind_operator("COPY", [("x", None), ("y", None)], rows, {}, "scalar", 1, not_called, not_called)


def test_constants_of_graphs_lie_as_layouts_can_say() -> None:
    def bind_array(array: np.ndarray[Any, Any]) -> _core.BoundGraph:
        return bind_graph([array], [])

    five = np.arange(10, dtype=np.float32)[::2]  # as long as the row that tells a value
    alone = np.ndarray((1, 2), np.float32, bytes(16), strides=(3, 8))  # the stride of an only index counts for nothing
    for array in (five, five.reshape(5, 1), np.array(1, np.float32), np.broadcast_to(five[:1], (7, 5)), alone):
        bind_array(array).initialize({})
    for array in (five.astype(np.float64), five.astype(">f4"), five != 0, np.zeros(2, "V4")):
        with pytest.raises(ValueError, match="no data type"):
            bind_array(array)
    with pytest.raises(ValueError, match="no whole elements"):
        bind_array(five[::-1])
    memory = bytearray(16)
    for array in (np.ndarray((2,), np.float32, memory, offset=1), np.ndarray((2,), np.float32, memory, strides=(6,))):
        with pytest.raises(ValueError, match="not aligned"):
            bind_array(array)
    with pytest.raises(ValueError, match="rank"):
        bind_array(five.reshape((5, *(1,) * 8)))


DEQUANTIZATION = [
    (int(TensorDataType.UINT8), (4,), (1,), False, False),
    (int(TensorDataType.FLOAT32), (4,), (0,), True, False),
    None,
    (int(TensorDataType.FLOAT32), (4,), (1,), False, True),
]


def bound_dequantization(resolve: Any, num_threads: int = 1) -> _core.BoundOperator:
    names = [(name, None) for name in ("input", "scale", "zero_point", "output")]
    operator = "ELEMENT_WISE_DEQUANTIZE_LINEAR"
    return _core.bind_operator(operator, names, DEQUANTIZATION, {}, "scalar", num_threads, resolve, tuple)


def test_an_operator_has_what_it_owns_before_it_runs() -> None:
    """Whatever `resolve` answers: the package's own refuses both before."""
    codes, scale = np.arange(4, dtype=np.uint8), np.array([0.5], np.float32)
    operator = bound_dequantization(
        lambda bindings, owned, ready: ((codes, scale if owned else None, None, None), None)
    )
    with pytest.raises(RuntimeError, match="not initialized"):
        operator.dispatch({"input": codes})
    assert operator.initialize({})
    assert operator.dispatch({"input": codes}).tolist() == [0, 0.5, 1, 1.5]
    with pytest.raises(RuntimeError, match="does not fit"):
        bound_dequantization(lambda *_: ((None,) * 4, None)).initialize({})


def test_threads_are_as_many_as_a_device_has_at_most() -> None:
    box = np.zeros((1, 1, 4)), np.zeros((1, 1, 1)), 1, 0.5, None, False
    for num_threads in (0, _core.MOST_THREADS + 1, 2**31 - 1):
        with pytest.raises(ValueError, match="threads are 1 to 1024"):
            bound_dequantization(not_called, num_threads)
        with pytest.raises(ValueError, match="threads are 1 to 1024"):
            _core.bind_graph(_core.new_graph([], []), "scalar", num_threads, not_called, not_called)
        with pytest.raises(ValueError, match="threads are 1 to 1024"):
            _core.non_max_suppression(*box, "scalar", num_threads)
    for isa in ("", "sse2"):
        with pytest.raises(ValueError, match=f"no instruction set of this machine is named {isa}"):
            _core.bind_graph(_core.new_graph([], []), isa, 1, not_called, not_called)


def test_objects_remain_what_they_are() -> None:
    memory, operator = _core.new_session_memory(), bound_dequantization(not_called)
    for native in (memory, operator):
        for other in (_core.BoundGraph, _core.CallMemo, object):
            with pytest.raises(TypeError, match="__class__"):
                native.__class__ = other  # type: ignore[assignment]
        with pytest.raises(TypeError, match="immutable"):
            type(native).describe = None  # type: ignore[union-attr, method-assign]


def test_operators_write_to_their_outputs_alone() -> None:
    """Arrays that are bound as inputs may be read only, and constants are kept for other dispatches."""
    names = [(name, None) for name in ("input", "scale", "zero_point", "output")]
    layout = DEQUANTIZATION[3][:3]
    swapped = "an input bound as an output, or an output as an input"
    for place, owned, output in ((3, False, False), (3, True, True), (3, True, False), (0, False, True)):
        rows: list[Any] = [*DEQUANTIZATION]
        rows[place] = (*layout, owned, output)
        with pytest.raises(ValueError, match="an output is owned" if owned and output else swapped):
            _core.bind_operator("ELEMENT_WISE_DEQUANTIZE_LINEAR", names, rows, {}, "scalar", 1, not_called, not_called)
    values: list[Any] = [
        (int(kind), name, int(data_type), (1,), (1,))
        for kind, name, data_type in (
            (ValueKind.INPUT, "x", TensorDataType.FLOAT32),
            (ValueKind.INPUT, "codes", TensorDataType.UINT8),
            (ValueKind.OUTPUT, "scale", TensorDataType.FLOAT32),
            (ValueKind.OUTPUT, "zero_point", TensorDataType.UINT8),
        )
    ]
    with pytest.raises(ValueError, match=swapped):
        bind_graph(values, [("DYNAMIC_QUANTIZE_LINEAR", "node", (0, 1), (2, 3), {})])
