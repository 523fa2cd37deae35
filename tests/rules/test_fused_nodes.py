"""What optimizers fuse besides attention, beside onnxruntime: norms of sums, embeddings, GELU, products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, floats, results_of_onnxruntime, steps_of

Array = NDArray[Any]

SHAPE = (2, 5, 20)
TOKENS, POSITIONS, SEGMENTS = 11, 7, 2


def named(builder: Builder, operator: str, inputs: list[Any], outputs: tuple[int, ...], **attributes: Any) -> list[str]:
    """Add a node with those outputs alone."""
    results = builder.node(operator, inputs, count=max(outputs) + 1, **attributes)
    node = builder.nodes[-1]
    for index in range(len(node.output)):
        if index not in outputs:
            node.output[index] = ""
    return [results] if isinstance(results, str) else [results[index] for index in outputs]


def fused_product(builder: Builder, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[str, dict[str, Array]]:
    """What dynamic quantization makes of a product, its codes an input."""
    x, scale = builder.input("uint8", (*shape[:-1], 6), "codes"), builder.input("float32", [], "scale")
    sums = builder.node("MatMulInteger", [x, codes(rng, "int8", (6, shape[-1])), np.uint8(7), np.int8(0)])
    scaled = builder.node("Mul", [builder.node("Cast", [sums], to=1), builder.node("Mul", [scale, np.float32(0.01)])])
    return scaled, {"codes": codes(rng, "uint8", (*shape[:-1], 6)), "scale": np.array(0.03, np.float32)}


@pytest.mark.parametrize("shape", [SHAPE, (1, 1, 20), (3, 7, 1), (6, 20)])
@pytest.mark.parametrize("is_simple", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_sum", [False, True])
def test_norms_of_sums(
    random_numbers: np.random.Generator, shape: tuple[int, ...], is_simple: bool, with_bias: bool, with_sum: bool
) -> None:
    builder, size = Builder(), shape[-1]
    weight, bias, addend = (floats(random_numbers, (size,)) for _ in range(3))
    inputs: list[Any] = [builder.input("float32", shape), builder.input("float32", shape, "skip"), weight]
    inputs += [] if is_simple else [bias]
    inputs += [addend] if with_bias else []
    operator = "com.microsoft.SkipSimplifiedLayerNormalization" if is_simple else "com.microsoft.SkipLayerNormalization"
    for result in named(builder, operator, inputs, (0, 3) if with_sum else (0,), epsilon=1e-3):
        builder.output(result, "float32")
    feeds = {"x": floats(random_numbers, shape), "skip": floats(random_numbers, shape)}
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("shape", [(1, 5, 20), (5, 20)])
def test_what_is_skipped_may_be_the_same_for_all_images(
    random_numbers: np.random.Generator, shape: tuple[int, ...]
) -> None:
    builder = Builder()
    inputs = [builder.input("float32", SHAPE), builder.input("float32", shape, "skip"), floats(random_numbers, (20,))]
    builder.output(builder.node("com.microsoft.SkipLayerNormalization", inputs), "float32")
    assert_like_onnxruntime(
        builder.build(), {"x": floats(random_numbers, SHAPE), "skip": floats(random_numbers, shape)}
    )


@pytest.mark.parametrize("skipped", [False, True])
@pytest.mark.parametrize("is_read_besides", [False, True])
def test_a_product_takes_the_bias_of_the_sum(
    random_numbers: np.random.Generator, skipped: bool, is_read_besides: bool
) -> None:
    builder = Builder()
    product, feeds = fused_product(builder, random_numbers, SHAPE)
    other, vectors = builder.input("float32", SHAPE), [floats(random_numbers, (20,)) for _ in range(3)]
    inputs = [other, product, *vectors] if skipped else [product, other, *vectors]
    builder.output(builder.node("com.microsoft.SkipLayerNormalization", inputs), "float32")
    if is_read_besides:
        builder.output(product, "float32")
    assert_like_onnxruntime(builder.build(), {**feeds, "x": floats(random_numbers, SHAPE)})
    sums = 3 if is_read_besides else 2  # of the scales, of the rows, and of the bias
    assert steps_of(builder).count("ELEMENT_WISE_BINARY") == sums


@pytest.mark.parametrize("axis", [-1, 2])
def test_norms_by_the_mean_square(random_numbers: np.random.Generator, axis: int) -> None:
    builder = Builder()
    inputs = [builder.input("float32", SHAPE), floats(random_numbers, (20,))]
    builder.output(builder.node("SimplifiedLayerNormalization", inputs, axis=axis, epsilon=1e-3), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE)})


@pytest.mark.parametrize("what", ["computed weight", "FLOAT16", "mean"])
def test_norms_of_sums_that_run_elsewhere(random_numbers: np.random.Generator, what: str) -> None:
    builder = Builder()
    dtype = np.float16 if what == "FLOAT16" else np.float32
    feeds = {"x": floats(random_numbers, SHAPE).astype(dtype), "w": floats(random_numbers, (20,)).astype(dtype)}
    x = builder.input(dtype, SHAPE)
    weight = builder.input(dtype, (20,), "w") if what == "computed weight" else feeds.pop("w")
    results = named(builder, "com.microsoft.SkipLayerNormalization", [x, x, weight], (0, 1) if what == "mean" else (0,))
    builder.output(results[0], dtype)  # onnxruntime leaves the mean unwritten
    assert_like_onnxruntime(builder.build(), feeds, native=False)
    assert [part.provider for part in dmlcpu.InferenceSession(builder.build()).partitions()] == ["onnxruntime"]


class Embedding:
    """The operands of embeddings that are looked up, added and normalized."""

    def __init__(self, rng: np.random.Generator, batch: int = 2, tokens: int = 5, width: int = 20) -> None:
        self.builder, self.width = Builder(), width
        self.feeds = {
            "words": rng.integers(0, TOKENS, (batch, tokens), np.int32),
            "segments": rng.integers(0, SEGMENTS, (batch, tokens), np.int32),
            "mask": rng.integers(0, 3, (batch, tokens), np.int32),
            "positions": rng.integers(0, POSITIONS, (1, tokens), np.int32),
        }

    def fed(self, name: str, is_wanted: bool = True) -> str:
        if not is_wanted:
            del self.feeds[name]
            return ""
        return self.builder.input("int32", self.feeds[name].shape, name)

    def check(self, operator: str, inputs: list[Any], outputs: tuple[int, ...]) -> None:
        results = named(self.builder, f"com.microsoft.{operator}", inputs, outputs, epsilon=1e-4)
        for result, place in zip(results, outputs, strict=True):
            self.builder.output(result, "int32" if place == 1 else "float32")
        assert_like_onnxruntime(self.builder.build(), self.feeds)


@pytest.mark.parametrize("with_segments", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("with_positions", [False, True])
@pytest.mark.parametrize("outputs", [(0, 1), (0, 2), (0, 1, 2)])
def test_embeddings(
    random_numbers: np.random.Generator,
    with_segments: bool,
    with_mask: bool,
    with_positions: bool,
    outputs: tuple[int, ...],
) -> None:
    case = Embedding(random_numbers)
    words, positions, segments = (floats(random_numbers, (count, 20)) for count in (TOKENS, POSITIONS, SEGMENTS))
    inputs = [case.fed("words"), case.fed("segments", with_segments), words, positions]
    inputs += [segments if with_segments else "", floats(random_numbers, (20,)), floats(random_numbers, (20,))]
    inputs += [case.fed("mask", with_mask), case.fed("positions", with_positions)]
    case.check("EmbedLayerNormalization", inputs, outputs)


@pytest.mark.parametrize("with_segments", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("sizes", [(2, 5, 20), (1, 1, 16), (3, 7, 5)])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_embeddings_of_codes(
    random_numbers: np.random.Generator, with_segments: bool, with_mask: bool, sizes: tuple[int, int, int], dtype: str
) -> None:
    case = Embedding(random_numbers, *sizes)
    del case.feeds["positions"]
    width, point = sizes[2], np.array(3, dtype)
    tables: list[Any] = [codes(random_numbers, dtype, (count, width)) for count in (TOKENS, POSITIONS, SEGMENTS)]
    tables += [codes(random_numbers, dtype, (width,)) for _ in range(2)]
    scales: list[Any] = [np.float32(scale) for scale in (0.01, 0.02, 0.015, 0.03, 0.005)]
    points: list[Any] = [point] * 5
    if not with_segments:
        tables[2] = scales[2] = points[2] = ""
    ids = [case.fed("words"), case.fed("segments", with_segments)]
    case.check("QEmbedLayerNormalization", [*ids, *tables, case.fed("mask", with_mask), *scales, *points], (0, 1))


def test_more_tokens_than_positions(random_numbers: np.random.Generator) -> None:
    case = Embedding(random_numbers, tokens=POSITIONS + 1)
    inputs = [case.fed("words"), "", floats(random_numbers, (TOKENS, 20)), floats(random_numbers, (POSITIONS, 20)), ""]
    vectors = [floats(random_numbers, (20,)) for _ in range(2)]
    result = case.builder.node("com.microsoft.EmbedLayerNormalization", [*inputs, *vectors], count=2)[0]
    case.builder.output(result, "float32")
    with pytest.raises(dmlcpu.BindingError, match="EmbedLayerNormalization"):
        dmlcpu.InferenceSession(case.builder.build()).run(None, {"words": case.feeds["words"]})


@pytest.mark.parametrize("wrong", ["segments", "mask", "positions"])
def test_numbers_of_other_shapes(random_numbers: np.random.Generator, wrong: str) -> None:
    """They are refused: of some onnxruntime ends the process."""
    case = Embedding(random_numbers)
    case.feeds[wrong] = case.feeds[wrong][0, 1:]
    ids = [case.fed("words"), case.fed("segments")]
    tables = [floats(random_numbers, (count, 20)) for count in (TOKENS, POSITIONS, SEGMENTS)]
    inputs = [
        *ids,
        *tables,
        *(floats(random_numbers, (20,)) for _ in range(2)),
        case.fed("mask"),
        case.fed("positions"),
    ]
    result, lengths = case.builder.node("com.microsoft.EmbedLayerNormalization", inputs, count=2)
    case.builder.output(result, "float32")
    case.builder.output(lengths, "int32")
    with pytest.raises(dmlcpu.InvalidModelError, match=r"EmbedLayerNormalization_0\): got numbers of shape \(4,\)"):
        dmlcpu.InferenceSession(case.builder.build()).run(None, case.feeds)


@pytest.mark.parametrize("operator", ["Gelu", "BiasGelu", "FastGelu", "FastGelu with bias", "QuickGelu", "QuickGelu 1"])
@pytest.mark.parametrize("source", ["floats", "codes", "product"])
def test_gelus(random_numbers: np.random.Generator, operator: str, source: str) -> None:
    builder = Builder()
    feeds = {"x": floats(random_numbers, SHAPE) * 4}
    if source == "product":
        x, feeds = fused_product(builder, random_numbers, SHAPE)
    elif source == "codes":
        x = builder.dequantized(builder.input("uint8", SHAPE), 0.05, np.uint8(120))
        feeds = {"x": codes(random_numbers, "uint8", SHAPE)}
    else:
        x = builder.input("float32", SHAPE)
    name, _, rest = operator.partition(" ")
    inputs = [x, floats(random_numbers, (20,))] if name == "BiasGelu" or rest == "with bias" else [x]
    options = {"alpha": 1.0} if rest == "1" else {}
    builder.output(builder.node(f"com.microsoft.{name}", inputs, **options), "float32")
    assert_like_onnxruntime(builder.build(), feeds)
    steps = steps_of(builder)
    if source == "product":  # which takes the bias
        assert steps == ["ELEMENT_WISE_BINARY", "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "ELEMENT_WISE_UNARY"]
    elif source == "codes" and len(inputs) == 1:
        assert steps == ["FLOAT_TABLE"]
    else:
        assert steps[-1] == "ELEMENT_WISE_UNARY"


def test_gelu_by_tanh(random_numbers: np.random.Generator) -> None:
    builder = Builder(20)
    builder.output(builder.node("Gelu", [builder.input("float32", SHAPE)], approximate="tanh"), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, SHAPE) * 4})
    assert steps_of(builder) == ["ELEMENT_WISE_UNARY"]


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("alpha", [1.0, 0.176])
@pytest.mark.parametrize("form", ["floats", "constant", "codes"])
@pytest.mark.parametrize("operator", ["FusedMatMul", "TransposeMatMul"])
def test_scaled_products(
    random_numbers: np.random.Generator, transposed: tuple[int, int], alpha: float, form: str, operator: str
) -> None:
    builder = Builder()
    a_shape = (2, 3, 7, 4) if transposed[0] else (2, 3, 4, 7)
    b_shape = (9, 7) if transposed[1] else (7, 9)
    b: Any
    if form == "codes":
        a = builder.dequantized(builder.input("uint8", a_shape, "a"), 0.02, np.uint8(99))
        b = builder.dequantized(codes(random_numbers, "int8", b_shape), 0.01, np.int8(0))
        feeds = {"a": codes(random_numbers, "uint8", a_shape)}
    else:
        a, b = builder.input("float32", a_shape, "a"), floats(random_numbers, b_shape)
        feeds = {"a": floats(random_numbers, a_shape)}
        if form == "floats":
            feeds["b"], b = b, builder.input("float32", b_shape, "b")
    options = {"transA": transposed[0], "transB": transposed[1], "alpha": alpha}
    builder.output(builder.node(f"com.microsoft.{operator}", [a, b], **options), "float32")
    assert_like_onnxruntime(builder.build(), feeds)


def laid_out(array: Array, is_transposed: bool, starts_with_rows: bool) -> Array:
    """Rows and columns of matrices, the last axes, in the order of a FusedMatMul's operand."""
    array = array.swapaxes(-1, -2) if is_transposed else array
    return np.ascontiguousarray(np.moveaxis(array, -2, 0) if starts_with_rows else array)


@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("batches", [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("form", ["floats", "codes"])
def test_scaled_products_whose_batches_are_transposed(
    random_numbers: np.random.Generator,
    batch: tuple[int, ...],
    transposed: tuple[int, int],
    batches: tuple[int, int],
    form: str,
) -> None:
    builder = Builder()
    feeds, operands = {}, []
    for index, shape in enumerate([(*batch, 4, 7), (*batch, 7, 9)]):
        name = "ab"[index]
        array = codes(random_numbers, "uint8", shape) if form == "codes" else floats(random_numbers, shape)
        feeds[name] = laid_out(array, bool(transposed[index]), bool(batches[index]))
        value = builder.input(array.dtype, feeds[name].shape, name)
        operands.append(builder.dequantized(value, 0.02, np.uint8(99)) if form == "codes" else value)
    options = {f"trans{name}": given for name, given in zip("AB", transposed, strict=True)}
    options |= {f"transBatch{name}": given for name, given in zip("AB", batches, strict=True)}
    builder.output(builder.node("com.microsoft.FusedMatMul", operands, alpha=0.5, **options), "float32")
    assert_like_onnxruntime(builder.build(), feeds)


@pytest.mark.parametrize("shapes", [((4, 7), (7, 9)), ((4, 2, 7), (7, 9)), ((4, 2, 7), (2, 2, 7, 9))], ids=str)
def test_transposed_batches_that_onnxruntime_refuses(
    random_numbers: np.random.Generator, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    builder = Builder()
    feeds = {name: floats(random_numbers, shape) for name, shape in zip("ab", shapes, strict=True)}
    operands = [builder.input("float32", feed.shape, name) for name, feed in feeds.items()]
    builder.output(builder.node("com.microsoft.FusedMatMul", operands, transBatchA=1), "float32")
    with pytest.raises(Exception, match="same rank"):
        results_of_onnxruntime(builder.build(), feeds)
    with pytest.raises(dmlcpu.InvalidModelError, match="FusedMatMul"):
        dmlcpu.InferenceSession(builder.build()).run(None, feeds)


def test_scaled_products_of_vectors_run_elsewhere(random_numbers: np.random.Generator) -> None:
    builder = Builder()
    feeds = {"a": floats(random_numbers, (3, 3, 4)), "b": floats(random_numbers, (4,))}
    operands = [builder.input("float32", feed.shape, name) for name, feed in feeds.items()]
    builder.output(builder.node("com.microsoft.FusedMatMul", operands, alpha=0.5), "float32")
    assert_like_onnxruntime(builder.build(), feeds, native=False)


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("addend", [None, (), (9,), (4, 1), (4, 9)])
@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.3, 0.7), (2.0, 0.0)])
def test_gemm_of_floats(
    random_numbers: np.random.Generator,
    transposed: tuple[int, int],
    addend: tuple[int, ...] | None,
    factors: tuple[float, float],
) -> None:
    builder = Builder()
    a_shape, b_shape = ((7, 4) if transposed[0] else (4, 7)), ((9, 7) if transposed[1] else (7, 9))
    inputs: list[Any] = [builder.input("float32", a_shape), floats(random_numbers, b_shape)]
    inputs += [] if addend is None else [floats(random_numbers, addend)]
    options = {"transA": transposed[0], "transB": transposed[1], "alpha": factors[0], "beta": factors[1]}
    builder.output(builder.node("Gemm", inputs, **options), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, a_shape)})


@pytest.mark.parametrize("axes", [[1], [0, 1], [-1]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_integers(random_numbers: np.random.Generator, axes: list[int], keepdims: int, dtype: str) -> None:
    """As a mask is made lengths."""
    builder = Builder()
    x = builder.input(dtype, (3, 7, 4))
    builder.output(builder.node("ReduceSum", [x, np.array(axes)], keepdims=keepdims), dtype)
    feed = random_numbers.integers(-(2**20), 2**20, (3, 7, 4)).astype(dtype)
    assert_like_onnxruntime(builder.build(), {"x": feed})


@pytest.mark.parametrize("form", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_products_with_their_scales_take_what_follows(random_numbers: np.random.Generator, form: str) -> None:
    """The bias of a GELU, where they have none of their own."""
    builder, w = Builder(), codes(random_numbers, "int8", (6, 20))
    if form == "DynamicQuantizeMatMul":
        x = builder.input("float32", (2, 5, 6))
        feed = random_numbers.integers(0, 256, (2, 5, 6)).astype(np.float32)
        feed.flat[:2] = 0, 255  # the scale is 1, and all codes are exact
        inputs = [x, w, np.float32(0.01), np.int8(0)]
    else:
        x, feed = builder.input("uint8", (2, 5, 6)), codes(random_numbers, "uint8", (2, 5, 6))
        inputs = [x, w, np.float32(0.02), np.float32(0.01), np.uint8(9), np.int8(0)]
    product = builder.node(f"com.microsoft.{form}", inputs)
    builder.output(builder.node("com.microsoft.BiasGelu", [product, floats(random_numbers, (20,))]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": feed})
    assert steps_of(builder)[-2:] == ["MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "ELEMENT_WISE_UNARY"]
