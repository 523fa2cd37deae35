"""RNN, LSTM and GRU on random layouts, with recurrences of floats and of codes, against the reference."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from conftest import SEED
from dispatching import assert_equal, expected_storage
from fills import INTEGERS, Fill, any_integers, special_floats
from laid_out import packed
from native_operator import run_native
from onnx_models import Builder
from reference.float_functions import clip, hyperbolic_tangent, logistic
from reference.recurrence import Function, gru, lstm, rnn
from strategies import input_tensors, output_tensors
from strided_tensor import StridedTensor, blank_tensor

Devices = Mapping[str, dmlcpu.Device]
Tensors = dict[str, StridedTensor | None]

PARTS = {"RNN": 1, "LSTM": 4, "GRU": 3}
BESIDE = {"RNN": [], "LSTM": ["cell_init_tensor"], "GRU": ["bias_tensor"]}
OUTPUTS = {
    "RNN": ("sequence_tensor", "single_tensor"),
    "LSTM": ("sequence_tensor", "single_tensor", "cell_single_tensor"),
    "GRU": ("sequence_tensor", "single_tensor"),
}
# By their numbers (FloatUnary).
FUNCTIONS: Mapping[int, Function] = {
    0: lambda x: np.where(x < 0, np.float32(0), x),
    1: logistic,
    2: hyperbolic_tangent,
    7: lambda x: clip(x * np.float32(0.2) + np.float32(0.5), np.float32(0), np.float32(1)),
}
OWN = {"RNN": (2,), "LSTM": (1, 2, 2), "GRU": (1, 2)}
PARAMETERS = {7: (0.2, 0.5)}
OWNED = ("recurrence_tensor", "scale_tensor", "zero_point_tensor")


def uniform(low: float, high: float) -> Fill:
    return lambda rng, dtype, count: rng.uniform(low, high, count).astype(dtype)


def integers_to(most: int) -> Fill:
    return lambda rng, dtype, count: rng.integers(0, most, count, dtype, endpoint=True)


def logical(tensor: StridedTensor | None) -> Any:
    return None if tensor is None else tensor.logical()


class Kind(NamedTuple):
    """What attributes tell of a layer. Functions are by their numbers, those of the cell itself if there are none."""

    operator: str
    direction: int
    functions: tuple[int, ...] = ()
    bound: float | None = None
    resets_first: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.functions or OWN[self.operator]

    @property
    def attributes(self) -> dict[str, list[int]]:
        told = [(number, *map(bits, PARAMETERS.get(number, (0, 0)))) for number in self.numbers]
        bound = {} if self.bound is None else {"bound": [bits(self.bound)]}
        resets = {"resets_first": [int(self.resets_first)]} if self.operator == "GRU" else {}
        return {"direction": [self.direction], "functions": [entry for row in told for entry in row], **bound, **resets}


def bits(number: float) -> int:
    return int(np.float32(number).view(np.uint32))


def expected_outputs(kind: Kind, tensors: Tensors) -> list[NDArray[np.float32]]:
    values = {name.removesuffix("_tensor"): logical(tensor) for name, tensor in tensors.items()}
    directions, length, _ = values["recurrence"].shape
    operands = [values[name] for name in ("input", "recurrence", "scale", "zero_point")]
    zeros = np.zeros((directions, values["input"].shape[1], length), np.float32)
    operands += [zeros if values["hidden_init"] is None else values["hidden_init"], values["lengths"]]
    bound = None if kind.bound is None else np.float32(kind.bound)
    functions = [FUNCTIONS[number] for number in kind.numbers]
    if kind.operator == "RNN":
        return rnn(*operands, kind.direction, functions, bound)
    if kind.operator == "LSTM":
        cell = zeros if values["cell_init"] is None else values["cell_init"]
        return lstm(*operands, cell, kind.direction, functions, bound)
    return gru(*operands, values["bias"], kind.direction, functions, bound, kind.resets_first)


def owned_of(tensors: Tensors) -> list[str]:
    return [name for name in OWNED if tensors[name] is not None]


def assert_recurrence(devices: Devices, kind: Kind, tensors: Tensors) -> None:
    results = expected_outputs(kind, tensors)
    expected = {
        name: expected_storage(tensor, values)
        for name, values in zip(OUTPUTS[kind.operator], results, strict=True)
        if (tensor := tensors[name]) is not None
    }
    for label, device in devices.items():
        outputs, owned = tuple(expected), owned_of(tensors)
        actual = run_native(device, kind.operator, tensors, kind.attributes, outputs=outputs, owned=owned)
        for name, storage in expected.items():
            assert_equal(actual[name], storage, f"{label}, {name}")


@st.composite
def recurrences(draw: st.DrawFn) -> tuple[Kind, Tensors]:
    operator, direction = draw(st.sampled_from(tuple(PARTS))), draw(st.integers(0, 2))
    directions, steps, sequences = 2 if direction == 2 else 1, draw(st.integers(1, 4)), draw(st.integers(1, 5))
    hidden = draw(st.integers(1, 9) | st.sampled_from((16, 17, 33)))
    columns, states = PARTS[operator] * hidden, (directions, sequences, hidden)
    data_type = draw(st.sampled_from(("FLOAT32", "UINT8", "INT8")))

    def floats(sizes: tuple[int, ...], high: float = 2) -> st.SearchStrategy[StridedTensor]:
        return input_tensors("FLOAT32", sizes, [uniform(-high, high), uniform(0, 100 * high), special_floats])

    is_float = data_type == "FLOAT32"
    matrix = [uniform(-1, 1)] if is_float else INTEGERS
    line = (directions, columns)
    tensors: Tensors = {
        "input_tensor": draw(floats((steps, sequences, directions * columns))),
        "recurrence_tensor": draw(input_tensors(data_type, (directions, hidden, columns), matrix)),
        "scale_tensor": None if is_float else draw(input_tensors("FLOAT32", line, [uniform(0.001, 0.1)])),
        "zero_point_tensor": None if is_float else draw(st.none() | input_tensors(data_type, line, INTEGERS)),
        "hidden_init_tensor": draw(st.none() | floats(states)),
        "lengths_tensor": draw(st.none() | input_tensors("INT32", (sequences,), [integers_to(steps)])),
    }
    for name in BESIDE[operator]:
        tensors[name] = draw(st.none() | floats(states if name == "cell_init_tensor" else (directions, hidden)))
    tensors["sequence_tensor"] = draw(output_tensors("FLOAT32", (steps, *states)))
    for name in OUTPUTS[operator][1:]:
        tensors[name] = draw(st.none() | output_tensors("FLOAT32", states))
    functions = tuple(draw(st.sampled_from((number, *FUNCTIONS))) for number in OWN[operator])
    bound = draw(st.none() | st.sampled_from((0.5, 3.0)))
    resets_first = operator == "GRU" and is_float and draw(st.booleans())
    return Kind(operator, direction, functions, bound, resets_first), tensors


@given(recurrences())
def test_on_any_layout(devices: Devices, recurrence: tuple[Kind, Tensors]) -> None:
    assert_recurrence(devices, *recurrence)


def plain(
    rng: np.random.Generator, operator: str, data_type: str, directions: int, steps: int, sequences: int, hidden: int
) -> Tensors:
    columns, states = PARTS[operator] * hidden, (directions, sequences, hidden)
    of_codes = data_type != "float32"
    matrix = any_integers(rng, np.dtype(data_type), directions * hidden * columns) if of_codes else None
    floats = rng.uniform(-0.1, 0.1, directions * hidden * columns).astype(np.float32) if matrix is None else matrix
    last = {"cell_single_tensor": blank_tensor("FLOAT32", states, None)} if operator == "LSTM" else {}
    scale = packed(rng.uniform(0.001, 0.002, (directions, columns)).astype(np.float32)) if of_codes else None
    return {
        "input_tensor": packed(rng.normal(size=(steps, sequences, directions * columns)).astype(np.float32)),
        "recurrence_tensor": packed(floats.reshape(directions, hidden, columns)),
        "scale_tensor": scale,
        "zero_point_tensor": None,
        "hidden_init_tensor": None,
        "lengths_tensor": None,
        **dict.fromkeys(BESIDE[operator]),
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
    assert_recurrence(devices, Kind(operator, 2), tensors)
    lengths = random_numbers.integers(0, 3, sequences, np.int32, endpoint=True)
    assert_recurrence(devices, Kind(operator, 2), tensors | {"lengths_tensor": packed(lengths)})


@pytest.mark.parametrize(("sequences", "hidden"), [(1, 400), (3, 150), (40, 130)])
def test_several_tasks_of_what_resets_first(
    devices: Devices, random_numbers: np.random.Generator, sequences: int, hidden: int
) -> None:
    tensors = plain(random_numbers, "GRU", "float32", 2, 3, sequences, hidden)
    assert_recurrence(devices, Kind("GRU", 2, resets_first=True), tensors)


@pytest.mark.parametrize("operator", PARTS)
@pytest.mark.parametrize("data_type", ["float32", "uint8"])
def test_long_states(devices: Devices, random_numbers: np.random.Generator, operator: str, data_type: str) -> None:
    """Of more floats than a task of cells has."""
    assert_recurrence(devices, Kind(operator, 0), plain(random_numbers, operator, data_type, 1, 2, 2, 2060))


def test_several_callers() -> None:
    """Of one operator, in a session: each has states of its own."""
    random = np.random.default_rng(SEED)

    def floats(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 1, shape).astype(np.float32)

    builder = Builder()
    operands = [builder.input("float32", (20, 3, 8)), floats(2, 128, 8), floats(2, 128, 32)]
    builder.output(builder.node("LSTM", operands, hidden_size=32, direction="bidirectional"), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    feeds = [{"x": floats(20, 3, 8)} for _ in range(4)]
    expected = [session.run(None, feed)[0].copy() for feed in feeds]

    def caller(index: int) -> None:
        for _ in range(5):
            assert session.run(None, feeds[index])[0].tobytes() == expected[index].tobytes()

    with ThreadPoolExecutor(len(feeds)) as pool:
        assert [*pool.map(caller, range(len(feeds)))] == [None] * len(feeds)


def tensor(data_type: str, *sizes: int) -> StridedTensor:
    return blank_tensor(data_type, sizes, None)


def repeated(*sizes: int) -> StridedTensor:
    """One float, as often as no memory has it."""
    return StridedTensor("FLOAT32", sizes, (0,) * len(sizes), np.zeros(1, np.float32))


HUGE = 2**30
# By the words of the message: tensors of an LSTM of floats, 3 steps, 2 sequences, 5 floats.
REFUSED: Mapping[str, list[Tensors]] = {
    "tensor 1": [
        {"recurrence_tensor": tensor("FLOAT32", 1, 5, 21), "input_tensor": tensor("FLOAT32", 3, 2, 21)},
        {"recurrence_tensor": tensor("FLOAT32", 5, 20)},
        {"recurrence_tensor": tensor("FLOAT32", 2, 5, 20)},
    ],
    "tensor 0": [{"input_tensor": tensor("FLOAT32", 3, 2, 19)}, {"input_tensor": tensor("FLOAT32", 3, 2, 20, 1)}],
    "tensor 2": [{"recurrence_tensor": tensor("INT8", 1, 5, 20), "scale_tensor": tensor("FLOAT32", 20)}],
    "tensor 3": [
        {
            "recurrence_tensor": tensor("INT8", 1, 5, 20),
            "scale_tensor": tensor("FLOAT32", 1, 20),
            "zero_point_tensor": tensor("INT8", 1, 5),
        }
    ],
    "tensor 5": [{"lengths_tensor": tensor("INT32", 3)}, {"lengths_tensor": tensor("INT32", 1, 2)}],
    "none of its kernels": [{"lengths_tensor": tensor("INT64", 2)}],
    "tensor 4": [{"hidden_init_tensor": tensor("FLOAT32", 1, 5, 2)}],
    "tensor 6": [{"cell_init_tensor": tensor("FLOAT32", 1, 2)}, {"cell_init_tensor": tensor("FLOAT32", 1, 3, 5)}],
    "tensor 7": [{"sequence_tensor": tensor("FLOAT32", 3, 1, 2, 6)}],
    "tensor 8": [{"single_tensor": tensor("FLOAT32", 1, 2, 6)}],
    "tensor 9": [{"cell_single_tensor": tensor("FLOAT32", 1, 3, 5)}],
    "has scales": [
        {"scale_tensor": tensor("FLOAT32", 1, 20)},
        {"recurrence_tensor": tensor("INT8", 1, 5, 20)},
        {"recurrence_tensor": tensor("INT8", 1, 5, 20), "zero_point_tensor": tensor("INT8", 1, 20)},
    ],
    "data type": [
        {"zero_point_tensor": tensor("UINT8", 1, 20)},
        {
            "recurrence_tensor": tensor("INT8", 1, 5, 20),
            "scale_tensor": tensor("FLOAT32", 1, 20),
            "zero_point_tensor": tensor("UINT8", 1, 20),
        },
    ],
    "too large": [
        {
            "recurrence_tensor": repeated(1, HUGE, 4 * HUGE),
            "input_tensor": repeated(3, 1, 4 * HUGE),
            "sequence_tensor": StridedTensor("FLOAT32", (3, 1, 1, HUGE), (HUGE, 1, 1, 1), np.zeros(1, np.float32)),
            "single_tensor": None,
            "cell_single_tensor": None,
        }
    ],
}
CASES = [(message, index) for message, cases in REFUSED.items() for index in range(len(cases))]


@pytest.mark.parametrize(("message", "index"), CASES)
def test_refusals(devices: Devices, random_numbers: np.random.Generator, message: str, index: int) -> None:
    tensors = plain(random_numbers, "LSTM", "float32", 1, 3, 2, 5) | REFUSED[message][index]
    outputs = [name for name in OUTPUTS["LSTM"] if tensors[name] is not None]
    device, attributes = next(iter(devices.values())), Kind("LSTM", 0).attributes
    with pytest.raises(ValueError, match=f"LSTM: .*{message}"):
        run_native(device, "LSTM", tensors, attributes, outputs=outputs, owned=owned_of(tensors))


@pytest.mark.parametrize("direction", [-1, 3])
def test_directions_that_there_are_none(devices: Devices, random_numbers: np.random.Generator, direction: int) -> None:
    tensors = plain(random_numbers, "GRU", "float32", 1, 3, 2, 5)
    with pytest.raises(ValueError, match="GRU: direction is out of range"):
        run_native(
            next(iter(devices.values())),
            "GRU",
            tensors,
            Kind("GRU", direction).attributes,
            outputs=OUTPUTS["GRU"],
            owned=owned_of(tensors),
        )


ONE = (2, 0, 0)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"functions": (-1, 0, 0, *ONE)}, "a function is out of range"),
        ({"functions": (*ONE, 38, 0, 0)}, "a function is out of range"),
        ({"functions": (*ONE, 2, -1, 0)}, "alpha is not the bits"),
        ({"functions": (*ONE, 2, 0, 1 << 32)}, "beta is not the bits"),
        ({"functions": ONE}, "functions are 2 with alpha and beta"),
        ({"functions": ONE * 3}, "functions are 2 with alpha and beta"),
        ({"bound": (-1,)}, "bound is not the bits"),
        ({"resets_first": (2,)}, "resets_first is out of range"),
    ],
    ids=str,
)
def test_attributes_that_there_are_none(
    devices: Devices, random_numbers: np.random.Generator, attributes: dict[str, tuple[int, ...]], message: str
) -> None:
    tensors = plain(random_numbers, "GRU", "float32", 1, 3, 2, 5)
    told = Kind("GRU", 0).attributes | attributes
    with pytest.raises(ValueError, match=f"GRU: .*{message}"):
        run_native(next(iter(devices.values())), "GRU", tensors, told, outputs=OUTPUTS["GRU"], owned=owned_of(tensors))


def test_codes_reset_behind_the_product(devices: Devices, random_numbers: np.random.Generator) -> None:
    tensors, kind = plain(random_numbers, "GRU", "uint8", 1, 3, 2, 5), Kind("GRU", 0, resets_first=True)
    device, outputs = next(iter(devices.values())), OUTPUTS["GRU"]
    with pytest.raises(ValueError, match="GRU: what resets first has a recurrence of floats"):
        run_native(device, "GRU", tensors, kind.attributes, outputs=outputs, owned=owned_of(tensors))


@pytest.mark.parametrize("wrong", [-1, 4, 2**31 - 1])
def test_lengths_out_of_range(devices: Devices, random_numbers: np.random.Generator, wrong: int) -> None:
    lengths = {"lengths_tensor": packed(np.array([3, wrong], np.int32))}
    tensors, kind = plain(random_numbers, "LSTM", "float32", 1, 3, 2, 5) | lengths, Kind("LSTM", 0)
    device, outputs = next(iter(devices.values())), OUTPUTS["LSTM"]
    with pytest.raises(IndexError, match=rf"^got a sequence of {wrong} steps, expected 0 to 3$"):
        run_native(device, "LSTM", tensors, kind.attributes, outputs=outputs, owned=owned_of(tensors))


@pytest.mark.parametrize("name", ["input_tensor", "hidden_init_tensor", "sequence_tensor", "single_tensor"])
def test_tensors_of_other_sizes(devices: Devices, random_numbers: np.random.Generator, name: str) -> None:
    """Of an RNN, whose outputs follow the first state."""
    sizes = {"input_tensor": (3, 2, 6), "sequence_tensor": (3, 1, 2, 4)}.get(name, (1, 2, 4))
    tensors = plain(random_numbers, "RNN", "float32", 1, 3, 2, 5) | {name: tensor("FLOAT32", *sizes)}
    device, attributes = next(iter(devices.values())), Kind("RNN", 0).attributes
    with pytest.raises(ValueError, match=f"RNN: .*tensor {[*tensors].index(name)}"):
        run_native(device, "RNN", tensors, attributes, outputs=OUTPUTS["RNN"], owned=owned_of(tensors))


def test_biases_of_another_length(devices: Devices, random_numbers: np.random.Generator) -> None:
    tensors = plain(random_numbers, "GRU", "float32", 1, 3, 2, 5) | {"bias_tensor": tensor("FLOAT32", 1, 6)}
    device, attributes = next(iter(devices.values())), Kind("GRU", 0).attributes
    with pytest.raises(ValueError, match=r"GRU: .*tensor 6"):
        run_native(device, "GRU", tensors, attributes, outputs=OUTPUTS["GRU"], owned=owned_of(tensors))


@pytest.mark.parametrize("bound", OWNED)
def test_parameters_that_are_not_owned(devices: Devices, random_numbers: np.random.Generator, bound: str) -> None:
    tensors = plain(random_numbers, "GRU", "uint8", 1, 3, 2, 5)
    tensors["zero_point_tensor"] = packed(np.full((1, 15), 128, np.uint8))
    device, attributes = next(iter(devices.values())), Kind("GRU", 0).attributes
    owned = [name for name in OWNED if name != bound]
    with pytest.raises(ValueError, match="GRU: the recurrence and its parameters are owned"):
        run_native(device, "GRU", tensors, attributes, outputs=OUTPUTS["GRU"], owned=owned)
