"""Weights of floats between dequantized inputs and quantized results, which onnxruntime makes codes of, too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest

import dmlcpu
from conftest import SEED
from dmlcpu.onnx.models.model import load_model
from onnx_cases import ints
from onnx_models import Array, Builder, results_of_onnxruntime
from template_checks import assert_traced_like_lowered

SHAPE: Final = (2, 4, 9, 8)
POINT: Final = np.uint8(117)
_WEIGHTS: Final = np.random.default_rng((SEED, 1)).normal(0.2, 1, (256, 6)).astype(np.float32)
FILTER: Final = _WEIGHTS.reshape(-1)[: 6 * 4 * 9].reshape(6, 4, 3, 3)
BIAS: Final = np.random.default_rng((SEED, 2)).normal(0, 1, 6).astype(np.float32)


def coded(builder: Builder, value: str, scale: float = 0.05, point: Any = POINT) -> str:
    return builder.dequantized(builder.quantized(value, scale, point), scale, point)


def same(builder: Builder, value: str) -> str:
    return value


class Product:
    """What is between codes: something before a product, the product, and something behind it."""

    def __init__(
        self,
        behind: Callable[[Builder, str], str] = same,
        before: Callable[[Builder, str], str] = same,
        operator: str = "Conv",
        weights: Any = FILTER,
        bias: Any = BIAS,
        shape: tuple[int, ...] = SHAPE,
        opset: int = 17,
        **options: Any,
    ) -> None:
        self.behind, self.before, self.operator, self.options = behind, before, operator, options
        self.weights, self.bias, self.shape, self.opset = weights, bias, shape, opset

    def model(self, point: Any = POINT) -> bytes:
        builder = Builder(self.opset)
        value = self.before(builder, coded(builder, builder.input("float32", self.shape), point=point))
        weights = self.weights(builder) if callable(self.weights) else self.weights
        given = [value, weights] if self.bias is None else [value, weights, self.bias]
        product = builder.node(self.operator, given, **self.options)
        result = builder.quantized(self.behind(builder, product), 0.25, point)
        builder.output(result, point.dtype)
        return builder.build()


def clipped(builder: Builder, value: str) -> str:
    limits = [np.float32(-1), np.float32(6)]
    return str(builder.node("Clip", [builder.node("Relu", [value]), *limits]))


def reshaped(builder: Builder, value: str) -> str:
    return str(builder.node("Reshape", [value, ints(2, -1)]))


def coded_by_channels(builder: Builder, value: str) -> str:
    scales, points = np.linspace(0.1, 0.3, 6, dtype=np.float32), np.full(6, POINT)
    numbers = builder.node("QuantizeLinear", [value, scales, points], axis=1)
    return str(builder.node("DequantizeLinear", [numbers, scales, points], axis=1))


def pooled(builder: Builder, value: str) -> str:
    return str(builder.node("MaxPool", [value], kernel_shape=(2, 2)))


def transposed(builder: Builder, value: str) -> str:
    return str(builder.node("Transpose", [value], perm=(0, 1, 3, 2)))


def function(operator: str) -> Callable[[Builder, str], str]:
    return lambda builder, value: str(builder.node(operator, [value]))


def with_output(builder: Builder, value: str) -> str:
    builder.output(value, "float32")
    return value


def also_read(builder: Builder, value: str) -> str:
    builder.output(builder.node("Relu", [value]), "float32")
    return value


def plus(addend: Array) -> Callable[[Builder, str], str]:
    return lambda builder, value: str(builder.node("Add", [addend, value]))


def biased_function(builder: Builder, value: str) -> str:
    return str(builder.node("Relu", [plus(BIAS)(builder, value)]))


def written(builder: Builder) -> str:
    return str(builder.node("Constant", [], value=onnx.numpy_helper.from_array(FILTER)))


def twice_moved(builder: Builder) -> str:
    moved = builder.node("Transpose", [builder.node("Identity", [FILTER])], perm=(0, 1, 3, 2))
    return str(builder.node("Transpose", [moved], perm=(0, 1, 3, 2)))


ROWS: Final = {"shape": (3, 256), "weights": _WEIGHTS}
QUANTIZED: Final[Mapping[str, Product]] = {
    "convolution": Product(),
    "without a bias": Product(bias=None),
    "in groups": Product(weights=FILTER[:, :2], group=2),
    "of sequences": Product(weights=FILTER[..., 0], shape=(2, 4, 9)),
    "by weights of one sign": Product(weights=np.abs(FILTER) + 1),
    "by zeros": Product(weights=0 * FILTER),
    "by a written constant": Product(weights=written),
    "by moved weights": Product(weights=twice_moved),
    "with functions behind it": Product(clipped),
    "reshaped": Product(reshaped),
    "clipped and reshaped": Product(lambda builder, value: reshaped(builder, clipped(builder, value))),
    "pooled": Product(pooled),
    "of what is pooled": Product(before=pooled),
    "of what is transposed": Product(before=transposed),
    "transposed convolution": Product(operator="ConvTranspose", weights=FILTER.reshape(4, 6, 3, 3), strides=(2, 2)),
    "rows": Product(operator="Gemm", **ROWS),
    "columns": Product(operator="Gemm", shape=(3, 256), weights=_WEIGHTS.T, transB=1),
    "matrix and bias": Product(plus(BIAS), operator="MatMul", bias=None, **ROWS),
    "matrices and bias": Product(plus(BIAS), operator="MatMul", bias=None, shape=(2, 5, 256), weights=_WEIGHTS),
    "matrix, bias and function": Product(biased_function, operator="MatMul", bias=None, **ROWS),
    "rows transposed behind a bias": Product(function("Transpose"), operator="Gemm", **ROWS),
    "between values that are left as they are": Product(function("Identity"), before=function("Identity")),
}
LEFT: Final[Mapping[str, Product]] = {
    "functions of other kinds": Product(function("Sigmoid")),
    "reshaped before a function": Product(lambda builder, value: clipped(builder, reshaped(builder, value))),
    "flattened": Product(function("Flatten")),
    "several readers": Product(also_read),
    "a function of the input": Product(before=function("Relu")),
    "the input minus a number": Product(
        before=lambda builder, value: str(builder.node("Sub", [value, np.float32([0.5])]))
    ),
    "a bias of two axes": Product(operator="Gemm", bias=BIAS[None], shape=(3, 256), weights=_WEIGHTS),
    "a matrix alone": Product(operator="MatMul", bias=None, **ROWS),
    "matrices, bias and function": Product(
        biased_function, operator="MatMul", bias=None, shape=(2, 5, 256), weights=_WEIGHTS
    ),
    "pooled before pools took codes": Product(pooled, opset=11),
    "of what is pooled before that": Product(before=pooled, opset=11),
    "pooled to codes of several scales": Product(
        lambda builder, value: coded_by_channels(builder, pooled(builder, value))
    ),
    "rows transposed": Product(function("Transpose"), operator="Gemm", bias=None, **ROWS),
    "a bias of two axes that is added": Product(plus(BIAS[None]), operator="MatMul", bias=None, **ROWS),
}
follows_onnxruntime = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 23), reason="weights are quantized otherwise there"
)


def fed(product: Product, random_numbers: np.random.Generator) -> dict[str, Array]:
    return {"x": random_numbers.normal(0, 2, product.shape).astype(np.float32)}


def optimized_by_onnxruntime(model: bytes, path: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def coded_by_onnxruntime(model: bytes, path: Path) -> list[Array]:
    """The constants of 8-bit codes that it makes, and their zero points."""
    optimized = optimized_by_onnxruntime(model, path)
    return [onnx.numpy_helper.to_array(each) for each in optimized.graph.initializer if each.data_type == 3]


def coded_here(model: bytes) -> list[Array]:
    return [array for array in load_model(model, to_run=True).constants.values() if array.dtype == np.int8]


def of_weights(arrays: list[Array]) -> list[Array]:
    return sorted((array for array in arrays if array.size > 1), key=lambda array: array.tobytes())


@follows_onnxruntime
@pytest.mark.parametrize("name", [*QUANTIZED, *LEFT])
def test_codes_are_those_of_onnxruntime(tmp_path: Path, name: str) -> None:
    model = (QUANTIZED.get(name) or LEFT[name]).model()
    ours, theirs = coded_here(model), coded_by_onnxruntime(model, tmp_path / "optimized.onnx")
    assert bool(ours) == (name in QUANTIZED)
    assert len(of_weights(ours)) == len(of_weights(theirs))
    for own, other in zip(of_weights(ours), of_weights(theirs), strict=True):
        assert sorted(own.reshape(-1)) == sorted(other.reshape(-1))  # it moves axes in other places


@follows_onnxruntime
@pytest.mark.parametrize("point", [POINT, np.int8(-11)])
@pytest.mark.parametrize("name", QUANTIZED)
def test_results(random_numbers: np.random.Generator, tmp_path: Path, name: str, point: Any) -> None:
    """They are onnxruntime's of the model with codes for weights, and native."""
    product = QUANTIZED[name]
    model, feeds = product.model(point), fed(product, random_numbers)
    optimized = optimized_by_onnxruntime(model, tmp_path / "optimized.onnx").SerializeToString()
    [expected] = results_of_onnxruntime(optimized, feeds)
    session = dmlcpu.InferenceSession(model)
    [result] = session.run(None, feeds)
    assert np.abs(result.astype(int) - expected).max() <= 1
    assert [part.provider for part in session.partitions()] == ["dmlcpu"]
    assert_traced_like_lowered(model, {"x": product.shape})


@follows_onnxruntime
def test_results_of_wide_codes(random_numbers: np.random.Generator) -> None:
    """Weights beside wide codes are codes as well, whoever runs the node."""
    product = Product(opset=21)
    model, feeds = product.model(np.uint16(30000)), fed(product, random_numbers)
    assert len(of_weights(coded_here(model))) == 1
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    [result] = dmlcpu.InferenceSession(model).run(None, feeds)
    assert np.abs(result.astype(int) - session.run(None, feeds)[0]).max() <= 1


def test_weights_of_two_nodes_are_quantized_once() -> None:
    builder = Builder()
    value, weights = coded(builder, builder.input("float32", SHAPE)), builder.constant(FILTER)
    for _ in range(2):
        builder.output(builder.quantized(builder.node("Conv", [value, weights]), 0.25, POINT), "uint8")
    model = builder.build()
    assert len(of_weights(coded_here(model))) == 1
    assert len(dmlcpu.InferenceSession(model).partitions()) == 1


@follows_onnxruntime
def test_outputs_that_are_moved_stay_floats(tmp_path: Path) -> None:
    """A result that the caller reads is not quantized; one that is quantized besides does not tell of weights."""
    product = Product(with_output)
    assert of_weights(coded_here(product.model()))
    moved = Product(lambda builder, value: with_output(builder, transposed(builder, value)))
    for made in (product, moved):
        theirs = coded_by_onnxruntime(made.model(), tmp_path / "optimized.onnx")
        assert len(of_weights(coded_here(made.model()))) == len(of_weights(theirs))


identity = function("Identity")
READ: Final[Mapping[str, Product]] = {
    "reshaped": Product(lambda builder, value: reshaped(builder, with_output(builder, value))),
    "pooled": Product(lambda builder, value: pooled(builder, with_output(builder, value))),
    "left as it is": Product(lambda builder, value: identity(builder, with_output(builder, value))),
    "left as it is and reshaped": Product(
        lambda builder, value: reshaped(builder, identity(builder, with_output(builder, value)))
    ),
    "reshaped and left as it is": Product(
        lambda builder, value: identity(builder, with_output(builder, reshaped(builder, value)))
    ),
    "what is left as it is": Product(lambda builder, value: with_output(builder, identity(builder, value))),
    "the input, left as it is": Product(before=lambda builder, value: with_output(builder, identity(builder, value))),
    "what is reshaped": Product(lambda builder, value: with_output(builder, reshaped(builder, value))),
}


@follows_onnxruntime
@pytest.mark.parametrize("name", READ)
def test_what_the_caller_reads_between_a_product_and_its_codes(tmp_path: Path, name: str) -> None:
    model = READ[name].model()
    theirs = coded_by_onnxruntime(model, tmp_path / "optimized.onnx")
    assert len(of_weights(coded_here(model))) == len(of_weights(theirs)) == (name == "left as it is")


def test_a_product_that_is_transposed_for_its_codes_alone(random_numbers: np.random.Generator) -> None:
    """Of one that the caller reads as it is, onnxruntime returns the codes' floats; here it stays what it is."""
    product = Product(lambda builder, value: transposed(builder, with_output(builder, value)))
    model, feeds = product.model(), fed(product, random_numbers)
    assert not of_weights(coded_here(model))
    results, expected = dmlcpu.InferenceSession(model).run(None, feeds), results_of_onnxruntime(model, feeds)
    np.testing.assert_allclose(results[0], expected[0], rtol=0, atol=3e-6 * float(np.abs(expected[0]).max()))
    assert np.abs(results[1].astype(int) - expected[1]).max() <= 1


def moved_by_no_order(builder: Builder) -> str:
    return str(builder.node("Transpose", [FILTER], perm=(0, 1, 3)))


def written_without_elements(builder: Builder) -> str:
    return str(builder.node("Constant", [], value_float=1.0))


@pytest.mark.parametrize("what", ["infinite", "of 64 bits", "none", "moved by no order", "no tensor", "computed"])
def test_weights_that_stay_as_they_are(what: str) -> None:
    weights: Any = {
        "infinite": FILTER * np.inf,
        "of 64 bits": FILTER.astype(np.float64),
        "none": FILTER[:0],
        "moved by no order": moved_by_no_order,
        "no tensor": written_without_elements,
    }.get(what)
    if what == "computed":
        product = Product(weights=lambda builder: builder.input("float32", FILTER.shape, "w"))
    else:
        product = Product(weights=weights, bias=None)
    assert not coded_here(product.model())


@follows_onnxruntime
def test_branches(random_numbers: np.random.Generator) -> None:
    """Convolutions in the branches of an If."""
    builder = Builder()
    value = builder.quantized(builder.input("float32", SHAPE), 0.05, POINT)
    branches = []
    for sign in (-1, 1):
        branch = Builder(prefix=f"branch{sign}")
        of_codes = branch.dequantized(value, 0.05, POINT)
        product = branch.node("Conv", [of_codes, branch.constant(sign * FILTER), branch.constant(BIAS)])
        branch.output(branch.quantized(product, 0.25, POINT), "uint8")
        branches.append(branch.graph())
    condition = builder.input("bool", (), "condition")
    builder.output(builder.node("If", [condition], then_branch=branches[0], else_branch=branches[1]), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # without it sums saturate on AVX2
    other = onnxruntime.InferenceSession(builder.build(), options, ["CPUExecutionProvider"])
    for chosen in (True, False):
        feeds = {"x": random_numbers.normal(0, 2, SHAPE).astype(np.float32), "condition": np.array(chosen)}
        [result], [expected] = session.run(None, feeds), other.run(None, feeds)
        assert np.abs(result.astype(int) - expected).max() <= 1
        assert [part.provider for part in session.partitions()] == ["dmlcpu"]


@pytest.mark.parametrize("operator", ["DequantizeLinear", "QuantizeLinear", "MaxPool", "MatMul", "Conv", "Identity"])
@pytest.mark.parametrize("what", ["input", "output"])
@pytest.mark.parametrize("kept", [0, 1])
def test_nodes_that_lack_something(operator: str, what: str, kept: int) -> None:
    """They are quantized or refused; what is wrong with others is told where they are met."""
    for product in (Product(reshaped, pooled, weights=twice_moved), QUANTIZED["matrix and bias"]):
        proto = onnx.load_from_string(product.model())
        for node in proto.graph.node:
            if node.op_type == operator:
                del getattr(node, what)[kept:]
        with contextlib.suppress(dmlcpu.InvalidModelError):
            assert len(of_weights(coded_here(proto.SerializeToString()))) <= 1


def test_weights_that_are_moved_many_times() -> None:
    """They are followed back, however far."""
    builder = Builder()
    value, weights = coded(builder, builder.input("float32", SHAPE)), builder.constant(FILTER)
    for _ in range(3000):
        weights = builder.node("Identity", [weights])
    builder.output(builder.quantized(builder.node("Conv", [value, weights]), 0.25, POINT), "uint8")
    assert len(of_weights(coded_here(builder.build()))) == 1
