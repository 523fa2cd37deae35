"""LSTM and GRU on random layouts, with recurrences of floats and of codes, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from dispatching import difference, expected_storage
from fills import Fill
from laid_out import packed
from native_operator import run_native
from reference.recurrence import gru, lstm
from strategies import input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Tensors = dict[str, StridedTensor | None]

PARTS = {"LSTM": 4, "GRU": 3}
OUTPUTS = {
    "LSTM": ("sequence_tensor", "single_tensor", "cell_single_tensor"),
    "GRU": ("sequence_tensor", "single_tensor"),
}
OWNED = ("recurrence_tensor", "scale_tensor", "zero_point_tensor")


def uniform(low: float, high: float) -> Fill:
    return lambda rng, dtype, count: rng.uniform(low, high, count).astype(dtype)


def any_code(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)


def logical(tensor: StridedTensor | None) -> Any:
    return None if tensor is None else tensor.logical()


def expected_outputs(operator: str, tensors: Tensors, direction: int) -> list[NDArray[np.float32]]:
    values = {name.removesuffix("_tensor"): logical(tensor) for name, tensor in tensors.items()}
    states = values["single"].shape
    operands = [values[name] for name in ("input", "recurrence", "scale", "zero_point")]
    zeros = np.zeros(states, np.float32)
    hidden = zeros if values["hidden_init"] is None else values["hidden_init"]
    if operator == "LSTM":
        return lstm(*operands, hidden, zeros if values["cell_init"] is None else values["cell_init"], direction)
    bias = None if values["bias"] is None else values["bias"][:, None]
    return gru(*operands, hidden, bias, direction)


def assert_recurrence(devices: Devices, operator: str, tensors: Tensors, direction: int) -> None:
    results = expected_outputs(operator, tensors, direction)
    outputs = {name: tensors[name] for name in OUTPUTS[operator]}
    expected = {
        name: expected_storage(tensor, values)
        for (name, tensor), values in zip(outputs.items(), results, strict=True)
        if tensor is not None
    }
    owned = [name for name in OWNED if tensors[name] is not None]
    for label, device in devices.items():
        actual = run_native(device, operator, tensors, {"direction": [direction]}, outputs=tuple(expected), owned=owned)
        for name, storage in expected.items():
            assert (found := difference(actual[name], storage)) is None, f"{label}, {name}: {found}"


@st.composite
def recurrences(draw: st.DrawFn) -> tuple[str, Tensors, int]:
    operator, direction = draw(st.sampled_from(tuple(PARTS))), draw(st.integers(0, 2))
    directions, steps, sequences = 2 if direction == 2 else 1, draw(st.integers(1, 4)), draw(st.integers(1, 5))
    hidden = draw(st.integers(1, 9) | st.sampled_from((16, 17, 33)))
    columns, states = PARTS[operator] * hidden, (directions, sequences, hidden)
    data_type = draw(st.sampled_from(("FLOAT32", "UINT8", "INT8")))

    def floats(sizes: tuple[int, ...], high: float = 2) -> st.SearchStrategy[StridedTensor]:
        return input_tensors("FLOAT32", sizes, [uniform(-high, high), uniform(0, 100 * high)])

    is_float = data_type == "FLOAT32"
    matrix = [uniform(-1, 1)] if is_float else [any_code]
    line = (directions, columns)
    tensors: Tensors = {
        "input_tensor": draw(floats((steps, sequences, directions * columns))),
        "recurrence_tensor": draw(input_tensors(data_type, (directions, hidden, columns), matrix)),
        "scale_tensor": None if is_float else draw(input_tensors("FLOAT32", line, [uniform(0.001, 0.1)])),
        "zero_point_tensor": None if is_float else draw(st.none() | input_tensors(data_type, line, [any_code])),
        "hidden_init_tensor": draw(st.none() | floats(states)),
    }
    if operator == "LSTM":
        tensors["cell_init_tensor"] = draw(st.none() | floats(states))
    else:
        tensors["bias_tensor"] = draw(st.none() | floats((directions, hidden)))
    tensors["sequence_tensor"] = draw(output_tensors("FLOAT32", (steps, *states)))
    tensors["single_tensor"] = draw(output_tensors("FLOAT32", states))
    if operator == "LSTM":
        tensors["cell_single_tensor"] = draw(output_tensors("FLOAT32", states))
    return operator, tensors, direction


@given(recurrences())
def test_on_any_layout(devices: Devices, recurrence: tuple[str, Tensors, int]) -> None:
    assert_recurrence(devices, *recurrence)


def plain(
    rng: np.random.Generator, operator: str, data_type: str, directions: int, steps: int, sequences: int, hidden: int
) -> Tensors:
    columns, states = PARTS[operator] * hidden, (directions, sequences, hidden)
    of_codes = data_type != "float32"
    matrix = any_code(rng, np.dtype(data_type), directions * hidden * columns) if of_codes else None
    floats = rng.uniform(-0.1, 0.1, directions * hidden * columns).astype(np.float32) if matrix is None else matrix
    last = {"cell_single_tensor": blank_tensor("FLOAT32", states, None)} if operator == "LSTM" else {}
    scale = packed(rng.uniform(0.001, 0.002, (directions, columns)).astype(np.float32)) if of_codes else None
    return {
        "input_tensor": packed(rng.normal(size=(steps, sequences, directions * columns)).astype(np.float32)),
        "recurrence_tensor": packed(floats.reshape(directions, hidden, columns)),
        "scale_tensor": scale,
        "zero_point_tensor": None,
        "hidden_init_tensor": None,
        "cell_init_tensor" if operator == "LSTM" else "bias_tensor": None,
        "sequence_tensor": blank_tensor("FLOAT32", (steps, *states), None),
        "single_tensor": blank_tensor("FLOAT32", states, None),
        **last,
    }


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("data_type", ["float32", "uint8", "int8"])
@pytest.mark.parametrize(("sequences", "hidden"), [(1, 400), (3, 150), (40, 130)])
def test_several_tasks(
    devices: Devices, random_numbers: np.random.Generator, operator: str, data_type: str, sequences: int, hidden: int
) -> None:
    """Products and cells that several threads share."""
    tensors = plain(random_numbers, operator, data_type, 2, 3, sequences, hidden)
    assert_recurrence(devices, operator, tensors, 2)


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("data_type", ["float32", "int8"])
def test_without_what_is_optional(
    devices: Devices, random_numbers: np.random.Generator, operator: str, data_type: str
) -> None:
    tensors = plain(random_numbers, operator, data_type, 1, 3, 2, 5)
    expected = expected_outputs(operator, tensors, 0)[0]
    tensors |= dict.fromkeys(OUTPUTS[operator][1:])
    for label, device in devices.items():
        owned = [name for name in OWNED if tensors[name] is not None]
        outputs = ("sequence_tensor",)
        actual = run_native(device, operator, tensors, {"direction": [0]}, outputs=outputs, owned=owned)
        storage = expected_storage(tensors["sequence_tensor"], expected)  # type: ignore[arg-type]
        assert (found := difference(actual["sequence_tensor"], storage)) is None, f"{label}: {found}"


def tensor(data_type: str, *sizes: int) -> StridedTensor:
    return blank_tensor(data_type, sizes, None)


REFUSED: Mapping[str, Tensors] = {
    "other columns": {"recurrence_tensor": tensor("FLOAT32", 1, 5, 21)},
    "other rank": {"recurrence_tensor": tensor("FLOAT32", 5, 20)},
    "two directions": {"recurrence_tensor": tensor("FLOAT32", 2, 5, 20)},
    "other sequence": {"sequence_tensor": tensor("FLOAT32", 3, 1, 2, 6)},
    "other single": {"single_tensor": tensor("FLOAT32", 1, 2, 6)},
    "other cell": {"cell_single_tensor": tensor("FLOAT32", 1, 3, 5)},
    "other init": {"hidden_init_tensor": tensor("FLOAT32", 1, 5, 2)},
    "other cell init": {"cell_init_tensor": tensor("FLOAT32", 1, 2)},
    "scales of floats": {"scale_tensor": tensor("FLOAT32", 1, 20)},
    "zero points of floats": {"zero_point_tensor": tensor("UINT8", 1, 20)},
    "codes without scales": {"recurrence_tensor": tensor("INT8", 1, 5, 20)},
    "other zero points": {
        "recurrence_tensor": tensor("INT8", 1, 5, 20),
        "scale_tensor": tensor("FLOAT32", 1, 20),
        "zero_point_tensor": tensor("UINT8", 1, 20),
    },
    "other scales": {"recurrence_tensor": tensor("INT8", 1, 5, 20), "scale_tensor": tensor("FLOAT32", 20)},
    "of no memory": {
        "recurrence_tensor": StridedTensor("FLOAT32", (1, 2**28, 2**30), (0, 0, 0), np.zeros(1, np.float32))
    },
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("direction", [0, 3])
def test_refusals(devices: Devices, random_numbers: np.random.Generator, case: str, direction: int) -> None:
    tensors = plain(random_numbers, "LSTM", "float32", 1, 3, 2, 5) | REFUSED[case]
    owned = [name for name in OWNED if tensors[name] is not None]
    with pytest.raises(ValueError, match="LSTM"):
        run_native(
            next(iter(devices.values())),
            "LSTM",
            tensors,
            {"direction": [direction]},
            outputs=OUTPUTS["LSTM"],
            owned=owned,
        )


def test_matrices_that_are_not_owned(devices: Devices, random_numbers: np.random.Generator) -> None:
    tensors = plain(random_numbers, "GRU", "float32", 1, 3, 2, 5)
    with pytest.raises(ValueError, match="GRU: the recurrence is owned"):
        run_native(next(iter(devices.values())), "GRU", tensors, {"direction": [0]}, outputs=OUTPUTS["GRU"])
