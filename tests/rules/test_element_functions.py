"""Tables of codes have the bits of onnx's evaluator in single or double precision, which is not imported for them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import dmlcpu
from dmlcpu.onnx.constants.constant_functions import by_numpy
from dmlcpu.onnx.constants.element_functions import ELEMENT_FUNCTIONS
from dmlcpu.onnx.models.model import load_model

Array = NDArray[Any]

# By the operator: the first version that it is tried in, its attributes, and its inputs beside the first.
CASES: Final[Mapping[str, Sequence[tuple[int, dict[str, Any], Sequence[Array]]]]] = {
    **{name: [(function.since, {}, ())] for name, function in ELEMENT_FUNCTIONS.items() if name != "Gelu"},
    **{name: [(13, {}, ())] for name in ("Relu", "Neg", "Abs", "Sqrt", "Exp", "Log", "Floor", "Ceil", "Sin", "Cos")},
    "Clip": [
        (6, {}, ()),
        (6, {"min": -0.3, "max": 6.0}, ()),
        (6, {"min": float("-inf"), "max": float("inf")}, ()),
        (13, {}, ()),
        (13, {}, (np.float32(-0.3), np.float32(6))),
        (13, {}, (np.float32(5), np.float32(-5))),
    ],
    "Pow": [
        (13, {}, (exponent,))
        for exponent in (
            np.float32([2]),
            np.float32(0.5),
            np.float32([-1]),
            np.int64([3]),
            np.float32(0),
            np.float64(0.3),
        )
    ],
    "PRelu": [(9, {}, (np.float32([slope]),)) for slope in (0.25, 0, -3, 1e38)],
    "LeakyRelu": [(6, {"alpha": alpha}, ()) for alpha in (0.1, 0.0, -2.0, 1e38)] + [(16, {}, ())],
    "ThresholdedRelu": [(10, {"alpha": alpha}, ()) for alpha in (0.1, 0.0, -2.0)] + [(10, {}, ())],
    "Shrink": [(9, {}, ()), (9, {"lambd": 0.1, "bias": 0.3}, ()), (9, {"lambd": -1.0, "bias": 1e38}, ())],
    "HardSigmoid": [
        (6, {}, ()),
        (6, {"alpha": 1 / 6}, ()),
        (6, {"alpha": 0.0, "beta": 0.0}, ()),
        (6, {"beta": 1e38}, ()),
    ],
    "Elu": [(6, {"alpha": alpha}, ()) for alpha in (0.1, 0.0, -2.0, 1e38)] + [(6, {}, ())],
    "Selu": [(6, {}, ()), (6, {"alpha": 0.5, "gamma": 3.0}, ()), (6, {"alpha": 0.0, "gamma": -1e38}, ())],
    "Celu": [(12, {"alpha": alpha}, ()) for alpha in (0.1, -2.0, 1e38, 1e-38)] + [(12, {}, ())],
    "Swish": [(24, {"alpha": alpha}, ()) for alpha in (0.1, 0.0, -2.0, 1e38)] + [(24, {}, ())],
}
# What 256 codes stand for: by their scale and zero point.
SCALES: Final = [(0.05, 128), (1 / 3, 0), (7e-4, 255), (1e-42, 77), (3e36, 100), (1e38, 128), (-0.11, 30), (0.0, 1)]


def model_of(
    operator: str,
    version: int,
    attributes: Mapping[str, Any],
    others: Sequence[Array],
    dtype: type[np.generic] = np.float32,
) -> onnx.ModelProto:
    names = ["x", *(f"c{index}" for index in range(len(others)))]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, [np.zeros(256, dtype), *others], strict=True)
    ]
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], "graph", inputs, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


@pytest.mark.parametrize("operator", CASES)
def test_bits_are_the_evaluators(operator: str) -> None:
    for version, attributes, others in CASES[operator]:
        if version > onnx.defs.onnx_opset_version():
            pytest.skip("an operator that this onnx does not have")
        proto = model_of(operator, version, attributes, others)
        [node] = load_model(proto.SerializeToString()).nodes
        is_plain = operator not in ELEMENT_FUNCTIONS or ELEMENT_FUNCTIONS[operator].is_plain
        precision = np.float32 if is_plain else np.float64
        evaluator = ReferenceEvaluator(model_of(operator, version, attributes, others, precision))
        for scale, zero_point in SCALES:
            with np.errstate(all="ignore"):
                x = (np.arange(256, dtype=np.float32) - np.float32(zero_point)) * np.float32(scale)
                fed = {"x": x} | {f"c{index}": array for index, array in enumerate(others)}
                [expected] = evaluator.run(None, fed | {"x": x.astype(precision)})
                expected = expected.astype(np.float32)
                made = by_numpy(node, list(fed.values()))
            assert made is not None
            assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
            assert made.tobytes() == expected.tobytes(), (version, attributes, others, scale)


def gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


def gelu_by_tanh(x: float) -> float:
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("attributes", "function"),
    [({}, gelu), ({"approximate": "none"}, gelu), ({"approximate": "tanh"}, gelu_by_tanh)],
)
def test_gelu(attributes: dict[str, Any], function: Callable[[float], float]) -> None:
    """Of which the evaluator has parts in single precision, and sums that are 0 where the function is not yet."""
    [node] = load_model(model_of("Gelu", 20, attributes, ()).SerializeToString()).nodes
    x = np.arange(-128, 128, dtype=np.float32) / np.float32(15)
    made = by_numpy(node, [x])
    assert made is not None
    assert made.tobytes() == np.float32([*map(function, x.tolist())]).tobytes()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("operator", ["Relu", "Neg", "Abs", "Clip"])
def test_bits_of_codes_are_the_evaluators(operator: str, dtype: type[np.integer[Any]]) -> None:
    others = [np.array(3, dtype), np.array(90, dtype)] if operator == "Clip" else []
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    proto = model_of(operator, 14, {}, others)
    proto.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(codes.dtype)
    fed = {"x": codes} | {f"c{index}": array for index, array in enumerate(others)}
    [expected] = ReferenceEvaluator(proto).run(None, fed)
    made = by_numpy(load_model(proto.SerializeToString()).nodes[0], list(fed.values()))
    assert made is not None or (operator, dtype) == ("Neg", np.uint8)
    if made is not None:
        np.testing.assert_array_equal(made, expected, strict=True)


@pytest.mark.parametrize(
    ("operator", "version", "attributes", "others"),
    [
        ("Selu", 1, {}, ()),  # which has other numbers
        ("Gelu", 20, {"approximate": "erf"}, ()),
        ("PRelu", 9, {}, (np.zeros(256, np.float32),)),
        ("Clip", 6, {"min": float("nan")}, ()),
    ],
)
def test_the_evaluator_is_asked(
    operator: str, version: int, attributes: dict[str, Any], others: Sequence[Array]
) -> None:
    [node] = load_model(model_of(operator, version, attributes, others).SerializeToString()).nodes
    assert by_numpy(node, [np.zeros(256, np.float32), *others]) is None


def test_many_elements_of_a_slow_function_are_left_to_the_evaluator() -> None:
    """Which is asked what they cost."""
    [node] = load_model(model_of("Erf", 13, {}, ()).SerializeToString()).nodes
    assert by_numpy(node, [np.zeros((32, 32), np.float32)]) is not None
    assert by_numpy(node, [np.zeros((32, 33), np.float32)]) is None


def chain_of_codes(operators: Sequence[str]) -> onnx.ModelProto:
    """Return a model that quantizes after each operator."""
    nodes = []
    name = "x"
    for index, operator in enumerate([None, *operators]):
        if operator is not None:
            others = ["lowest", "highest"] if operator == "Clip" else []
            nodes.append(helper.make_node(operator, [name, *others], [f"f{index}"]))
            name = f"f{index}"
        nodes.append(helper.make_node("QuantizeLinear", [name, "scale", "point"], [f"q{index}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{index}", "scale", "point"], [f"d{index}"]))
        name = f"d{index}"
    constants = {
        "scale": np.float32(0.05), "point": np.uint8(128), "lowest": np.float32(-3), "highest": np.float32(6),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [256])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [256])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_codes_of_a_chain_are_the_evaluators() -> None:
    proto = chain_of_codes(["HardSwish", "Sigmoid", "Tanh", "Gelu", "Clip", "LeakyRelu", "Mish"])
    x = np.float32(0.05) * (np.arange(256, dtype=np.float32) - 128)
    session = dmlcpu.InferenceSession(proto.SerializeToString())
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], ReferenceEvaluator(proto).run(None, {"x": x})[0])


_TELLS: Final = """
import sys, warnings
import numpy as np
from dmlcpu.onnx.constants.element_functions import ELEMENT_FUNCTIONS
warnings.simplefilter("ignore")
x = np.arange(-800, 800, dtype=np.float32) / 97
for name, function in ELEMENT_FUNCTIONS.items():
    given = x if function.is_plain else x.astype(np.float64)
    others = [np.float32(0.3)] if name in ("Pow", "PRelu") else []
    result = function.compute(given, *others, *function.defaults.values()).astype(np.float32)
    result[np.isnan(result)] = 0  # of any sign
    print(name, result.tobytes().hex())
"""


def test_bits_do_not_depend_on_the_processor() -> None:
    """Of numpy's own functions some do: those of this processor, and those of the least that numpy runs on."""
    own = subprocess.run([sys.executable, "-c", _TELLS], check=True, capture_output=True, text=True).stdout
    numbers = getattr(np, "_core", None) or np.core
    without = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(numbers._multiarray_umath.__cpu_dispatch__)}
    least = subprocess.run(
        [sys.executable, "-c", _TELLS], env=without, check=True, capture_output=True, text=True
    ).stdout
    assert len(own.splitlines()) == len(ELEMENT_FUNCTIONS)
    for ours, others in zip(own.splitlines(), least.splitlines(), strict=True):
        assert ours == others


_OPENS: Final = """
import sys
import dmlcpu
session = dmlcpu.InferenceSession(sys.argv[1])
assert [part.provider for part in session.partitions()] == ["dmlcpu"]
taken = [name for name in sys.modules if name.startswith("onnx.reference")]
assert not taken, taken
"""


def test_a_model_is_opened_without_the_evaluator(tmp_path: Path) -> None:
    """Its import takes longer than all else that a small model needs."""
    path = tmp_path / "chain.onnx"
    names = [
        name for name, function in ELEMENT_FUNCTIONS.items() if function.since <= 20 and name not in ("Pow", "PRelu")
    ]
    onnx.save(chain_of_codes([*names, "Relu", "Clip", "Neg", "Abs", "Sqrt", "Exp", "Log", "Floor", "Ceil"]), path)
    subprocess.run([sys.executable, "-c", _OPENS, str(path)], check=True)
