"""Attention in one node, beside onnxruntime: Attention, QAttention, MultiHeadAttention, and what they leave to it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from onnx_models import Builder, assert_like_onnxruntime, codes, floats

Array = NDArray[Any]

BATCH, TOKENS, STATES, HEADS = 3, 5, 12, 3
FORMS = ("Attention", "QAttention", "MultiHeadAttention")


def masks(batch: int, tokens: int) -> dict[str, Array | None]:
    """By the form; in one that hides everything no key is better than another."""
    places = np.arange(tokens)
    lengths = np.arange(batch) % (tokens + 1)
    return {
        "none": None,
        "lengths": lengths,
        "ends and starts": np.concatenate([lengths + 1, lengths // 2]),
        "keys": places < lengths[:, None],
        "queries and keys": (places + np.arange(tokens)[:, None] + lengths[:, None, None]) % 3 > 0,
        "other numbers": (places - 1) * (1 - lengths[:, None] % 2),
        "the same for all": np.zeros((batch, 1)),
        "one": np.zeros((1, 1)),
        "everything": np.zeros((batch, tokens)),
    }


class Node:
    """A model of one such node under construction."""

    def __init__(self, rng: np.random.Generator, form: str, batch: int, tokens: int, states: int, heads: int) -> None:
        self.builder, self.form, self.heads = Builder(), form, heads
        self.feeds: dict[str, Array] = {}
        bias = floats(rng, (3 * states,))
        if form == "MultiHeadAttention":
            parts = [self.fed(name, floats(rng, (batch, tokens, states))) for name in ("q", "k", "v")]
            self.inputs: list[Any] = [*parts, bias]
            self.places = {"mask": 4, "bias": 5}
        elif form == "Attention":
            self.inputs = [self.fed("x", floats(rng, (batch, tokens, states))), floats(rng, (states, 3 * states)), bias]
            self.places = {"mask": 3, "bias": 5}
        else:
            weights, scale = codes(rng, "int8", (states, 3 * states)), self.fed("scale", np.float32(0.02))
            point = self.fed("point", np.uint8(99))
            scales = rng.uniform(0.002, 0.004, 3 * states).astype(np.float32)
            x = self.fed("x", codes(rng, "uint8", (batch, tokens, states)))
            self.inputs = [x, weights, bias, scale, scales, "", point, np.zeros(3 * states, np.int8)]
            self.places = {"mask": 5}

    def fed(self, name: str, array: Any) -> str:
        self.feeds[name] = np.asarray(array)
        return self.builder.input(self.feeds[name].dtype, self.feeds[name].shape, name)

    def give(self, place: int, value: Any) -> None:
        self.inputs += [""] * (place + 1 - len(self.inputs))
        self.inputs[place] = value

    def masked(self, mask: Array | None) -> None:
        if mask is not None:
            self.give(self.places["mask"], self.fed("mask", mask.astype(np.int32)))

    def check(self, *, native: bool = True, **attributes: Any) -> list[str]:
        """Compare with onnxruntime; return the steps."""
        names = {"num_heads": self.heads, **attributes}
        self.builder.output(self.builder.node(f"com.microsoft.{self.form}", self.inputs, **names), "float32")
        model = self.builder.build()
        assert_like_onnxruntime(model, self.feeds, native=native)
        session = dmlcpu.InferenceSession(model)
        session.run(None, self.feeds)
        assert [part.provider for part in session.partitions()] == ["dmlcpu" if native else "onnxruntime"]
        return [step.type for part in session.partitions() for step in part.steps]


def node(rng: np.random.Generator, form: str, **sizes: int) -> Node:
    """A filter of -8 tells scores and mask apart where everything is hidden; -10000 leaves three digits of scores."""
    return Node(rng, form, **{"batch": BATCH, "tokens": TOKENS, "states": STATES, "heads": HEADS, **sizes})


# What is taken where queries, keys and values are one projection alone.
MERGED = ("ends and starts", "the same for all", "one")
MASKS = [(form, mask) for form in FORMS for mask in masks(1, 1) if form != "MultiHeadAttention" or mask not in MERGED]


@pytest.mark.parametrize(("form", "mask"), MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_masks(random_numbers: np.random.Generator, form: str, mask: str, unidirectional: int) -> None:
    case = node(random_numbers, form)
    case.masked(masks(BATCH, TOKENS)[mask])
    case.check(unidirectional=unidirectional, mask_filter_value=-8.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [{"tokens": 1}, {"batch": 1}, {"batch": 1, "tokens": 1}, {"states": 1, "heads": 1}])
@pytest.mark.parametrize("mask", ["none", "lengths", "keys", "queries and keys"])
def test_sizes(random_numbers: np.random.Generator, form: str, sizes: dict[str, int], mask: str) -> None:
    case = node(random_numbers, form, **sizes)
    case.masked(masks(sizes.get("batch", BATCH), sizes.get("tokens", TOKENS))[mask])
    case.check(unidirectional=1, mask_filter_value=-8.0)


@pytest.mark.parametrize("form", FORMS)
def test_defaults_and_another_scale(random_numbers: np.random.Generator, form: str) -> None:
    """Of a mask that leaves something the default hides what it hides."""
    for attributes in ({}, {"scale": 0.3}):
        case = node(random_numbers, form)
        case.masked(np.arange(TOKENS) < np.array([[5], [1], [3]]))
        case.check(**attributes)


@pytest.mark.parametrize("form", ["Attention", "MultiHeadAttention"])
@pytest.mark.parametrize("shape", [(1, 1), (1, HEADS), (BATCH, 1), (BATCH, HEADS)])
@pytest.mark.parametrize("is_masked", [False, True])
def test_biases_of_scores(
    random_numbers: np.random.Generator, form: str, shape: tuple[int, int], is_masked: bool
) -> None:
    case = node(random_numbers, form)
    case.masked(masks(BATCH, TOKENS)["keys"] if is_masked else None)
    case.give(case.places["bias"], case.fed("bias", floats(random_numbers, (*shape, TOKENS, TOKENS))))
    case.check(mask_filter_value=-8.0)


def test_values_of_another_size(random_numbers: np.random.Generator) -> None:
    case = node(random_numbers, "Attention")
    case.inputs[1:3] = floats(random_numbers, (STATES, 30)), floats(random_numbers, (30,))
    case.check(qkv_hidden_sizes=[12, 12, 6])


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("queries", [1, 4])
def test_queries_to_others(random_numbers: np.random.Generator, unidirectional: int, queries: int) -> None:
    """Of values there are as many as of keys, but of any size; an order is among as many keys as queries."""
    case = node(random_numbers, "MultiHeadAttention")
    case.builder, case.feeds = Builder(), {}
    shapes = {"q": (BATCH, queries, 12), "k": (BATCH, 7, 12), "v": (BATCH, 7, 6)}
    case.inputs = [case.fed(name, floats(random_numbers, shape)) for name, shape in shapes.items()]
    case.masked(np.array([7, 3, 1]))
    case.check(unidirectional=unidirectional, native=not unidirectional or queries == 1)


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
def test_keys_and_values_head_by_head(
    random_numbers: np.random.Generator, queries: int, with_bias: bool, is_masked: bool
) -> None:
    """As a decoder keeps those of its encoder: only queries have a bias then."""
    case = node(random_numbers, "MultiHeadAttention")
    case.builder, case.feeds = Builder(), {}
    kept = (BATCH, HEADS, 7, STATES // HEADS)
    shapes = {"q": (BATCH, queries, STATES), "k": kept, "v": kept}
    case.inputs = [case.fed(name, floats(random_numbers, shape)) for name, shape in shapes.items()]
    if with_bias:
        case.give(3, floats(random_numbers, (3 * STATES,)))
    case.masked(np.arange(7) < np.array([[7], [3], [1]]) if is_masked else None)
    case.check()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("heads", [HEADS, 2 * HEADS])
def test_only_keys_and_values_of_its_own_heads(random_numbers: np.random.Generator, count: int, heads: int) -> None:
    """Others run elsewhere, and those that a node is to return: onnxruntime refuses other heads."""
    case = node(random_numbers, "MultiHeadAttention")
    keys = floats(random_numbers, (BATCH, heads, TOKENS, STATES // heads))
    case.inputs[1:4] = case.fed("keys", keys), case.fed("values", keys), ""
    results = case.builder.node("com.microsoft.MultiHeadAttention", case.inputs, count, num_heads=HEADS)
    for name in [results] if count == 1 else results:
        case.builder.output(name, "float32")
    session = dmlcpu.InferenceSession(case.builder.build())
    if heads != HEADS:
        with pytest.raises(dmlcpu.DmlError):
            session.run(None, case.feeds)
        return
    session.run(None, case.feeds)
    assert [part.provider for part in session.partitions()] == ["dmlcpu" if count == 1 else "onnxruntime"]


@pytest.mark.parametrize("what", ["heads", "batch", "values"])
def test_keys_and_values_that_do_not_fit(random_numbers: np.random.Generator, what: str) -> None:
    """Twice as many heads of the same size, another batch, or more values than keys: no runtime takes them."""
    case = node(random_numbers, "MultiHeadAttention")
    batch, heads = BATCH + (what == "batch"), HEADS * (2 if what == "heads" else 1)
    shapes = [(batch, heads, TOKENS + more, STATES // HEADS) for more in (0, what == "values")]
    keys, values = (floats(random_numbers, shape) for shape in shapes)
    case.inputs[1:4] = case.fed("keys", keys), case.fed("values", values), ""
    result = case.builder.node("com.microsoft.MultiHeadAttention", case.inputs, num_heads=HEADS)
    case.builder.output(result, "float32")
    session = dmlcpu.InferenceSession(case.builder.build())
    with pytest.raises(dmlcpu.DmlError):
        session.run(None, case.feeds)
    (why,) = [reason for part in session.partitions() for reason in part.reasons.values()]
    assert why == f"queries, keys and values of shapes {[(BATCH, TOKENS, STATES), *shapes]}"


def test_a_past_beside_keys_and_values_head_by_head(random_numbers: np.random.Generator) -> None:
    case = node(random_numbers, "MultiHeadAttention")
    kept = (BATCH, HEADS, TOKENS, STATES // HEADS)
    case.inputs[1:4] = (
        case.fed("keys", floats(random_numbers, kept)),
        case.fed("values", floats(random_numbers, kept)),
        "",
    )
    for place, name in ((6, "past_keys"), (7, "past_values")):
        case.give(place, case.fed(name, floats(random_numbers, (BATCH, HEADS, 2, STATES // HEADS))))
    case.check(native=False)


def test_an_input_that_is_queries_keys_and_values(random_numbers: np.random.Generator) -> None:
    case = node(random_numbers, "MultiHeadAttention")
    case.inputs[:3] = ["q"] * 3
    case.check()


def test_the_projection_of_codes_is_one_product_that_scales(random_numbers: np.random.Generator) -> None:
    case = node(random_numbers, "QAttention")
    assert case.check() == ["MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "FLOAT_PRODUCT", "SOFTMAX", "FLOAT_PRODUCT", "COPY"]


@pytest.mark.parametrize("is_read_besides", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_queries_that_are_a_product_of_codes(
    random_numbers: np.random.Generator, is_read_besides: bool, with_bias: bool
) -> None:
    """Bias and scale become the product's, if nothing else reads it."""
    case = node(random_numbers, "MultiHeadAttention")
    x, scale = case.fed("x", codes(random_numbers, "uint8", (BATCH, TOKENS, 8))), case.fed("s", np.float32(0.02))
    weights = codes(random_numbers, "int8", (8, STATES))
    sums = case.builder.node("Cast", [case.builder.node("MatMulInteger", [x, weights, np.uint8(9)])], to=1)
    product = case.builder.node("Mul", [sums, case.builder.node("Mul", [scale, np.float32(0.01)])])
    case.inputs[0] = product
    if not with_bias:
        case.inputs[3] = ""
    if is_read_besides:
        case.builder.output(product, "float32")
    steps = case.check()
    assert steps.count("MATRIX_MULTIPLY_INTEGER_TO_FLOAT") == 1


def test_quantized_by_scales(random_numbers: np.random.Generator) -> None:
    """Attention on what DequantizeLinear gives."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (BATCH, TOKENS, STATES)), 0.02, np.uint8(120))
    weights = builder.dequantized(codes(random_numbers, "int8", (STATES, 3 * STATES)), 0.003, np.int8(0))
    inputs = [x, weights, floats(random_numbers, (3 * STATES,))]
    builder.output(builder.node("com.microsoft.Attention", inputs, num_heads=HEADS), "float32")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (BATCH, TOKENS, STATES))})


REFUSED = ("a buffer", "a past of another size", "3 times the batch", "computed bias", "computed weights")


@pytest.mark.parametrize("what", REFUSED)
def test_others_run_elsewhere(random_numbers: np.random.Generator, what: str) -> None:
    case = node(random_numbers, "Attention")
    if what == "a past of another size":  # which onnxruntime does not take either
        case.give(4, case.fed("past", floats(random_numbers, (2, BATCH, HEADS + 1, 2, STATES // HEADS))))
        case.builder.node("com.microsoft.Attention", case.inputs, num_heads=HEADS, count=2)
        case.builder.output("value0_0", "float32")
        with pytest.raises(dmlcpu.DmlError):
            dmlcpu.InferenceSession(case.builder.build()).run(None, case.feeds)
        return
    if what == "a buffer":
        case.give(4, case.fed("past", floats(random_numbers, (2, BATCH, HEADS, 9, STATES // HEADS))))
        case.give(6, np.array([2], np.int32))
        results = case.builder.node(
            "com.microsoft.Attention", case.inputs, num_heads=HEADS, past_present_share_buffer=1, count=2
        )
        case.builder.output(results[0], "float32")
        session = dmlcpu.InferenceSession(case.builder.build())
        assert [part.provider for part in session.partitions()] == ["onnxruntime"]
        return
    if what == "3 times the batch":
        case.masked(np.array([3, 2, 1, 0, 3, 5, 6, 0, 3, 5, 6]))
    elif what == "computed bias":
        case.inputs[2] = case.fed("b", floats(random_numbers, (3 * STATES,)))
    if what == "computed weights":  # of floats they may be
        case.inputs[1] = case.fed("w", floats(random_numbers, (STATES, 3 * STATES)))
        case.check()
        return
    case.check(native=False)


PASTS = ("none", "lengths", "keys", "queries and keys")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mask", PASTS)
@pytest.mark.parametrize(("past", "tokens"), [(0, 3), (1, 1), (4, 1), (4, 3), (2, 7)])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_tokens_after_others(
    random_numbers: np.random.Generator, form: str, mask: str, past: int, tokens: int, unidirectional: int
) -> None:
    """Keys and values of earlier tokens come first, and are returned with the new ones."""
    case = node(random_numbers, form, tokens=tokens)
    total, size = past + tokens, STATES // HEADS
    places, lengths = np.arange(total), np.arange(BATCH) + 1
    case.masked(
        {
            "none": None,
            "lengths": lengths,
            "keys": places < lengths[:, None],
            "queries and keys": (places + np.arange(tokens)[:, None] + lengths[:, None, None]) % 3 > 0,
        }[mask]
    )
    if form == "MultiHeadAttention":
        for place, name in ((6, "past_key"), (7, "past_value")):
            case.give(place, case.fed(name, floats(random_numbers, (BATCH, HEADS, past, size))))
    else:
        pair = floats(random_numbers, (2, BATCH, HEADS, past, size))
        case.give(4 if form == "Attention" else 8, case.fed("past", pair))
    count = 3 if form == "MultiHeadAttention" else 2
    attributes = {"num_heads": HEADS, "unidirectional": unidirectional, "mask_filter_value": -8.0}
    for result in case.builder.node(f"com.microsoft.{form}", case.inputs, count=count, **attributes):
        case.builder.output(result, "float32")
    assert_like_onnxruntime(case.builder.build(), case.feeds)


@pytest.mark.parametrize("form", FORMS)
def test_what_later_tokens_come_after(random_numbers: np.random.Generator, form: str) -> None:
    """Keys and values are returned by the first step, too, which has none in front."""
    case = node(random_numbers, form)
    count = 3 if form == "MultiHeadAttention" else 2
    for result in case.builder.node(f"com.microsoft.{form}", case.inputs, count=count, num_heads=HEADS):
        case.builder.output(result, "float32")
    assert_like_onnxruntime(case.builder.build(), case.feeds)


@pytest.mark.parametrize("is_within", [False, True])
def test_attention_without_a_bias(random_numbers: np.random.Generator, is_within: bool) -> None:
    """Here it runs; onnxruntime would end the process, so that what is left to it is refused."""
    x, weights = floats(random_numbers, (BATCH, TOKENS, STATES)), floats(random_numbers, (STATES, 3 * STATES))
    mask, results = np.zeros(3 * BATCH + 2, np.int32), []
    for bias in ("", np.zeros(3 * STATES, np.float32)):
        builder = Builder()
        inputs = [builder.input("float32", x.shape), weights, bias]
        builder.output(builder.node("com.microsoft.Attention", inputs, num_heads=HEADS), "float32")
        results += dmlcpu.InferenceSession(builder.build()).run(None, {"x": x})
    np.testing.assert_array_equal(results[0], results[1])
    builder = Builder()
    inputs = [builder.input("float32", x.shape), weights, "", mask]
    result = builder.node("com.microsoft.Attention", inputs, num_heads=HEADS)
    if is_within:
        # The weights go along: a branch sees the values around it.
        output = onnx.helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
        branch = onnx.helper.make_graph([builder.nodes.pop()], "branch", [], [output])
        result = builder.node("If", [builder.input("bool", (), "c")], then_branch=branch, else_branch=branch)
    builder.output(result, "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match="it has no bias, without which onnxruntime"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": x, **({"c": np.array(True)} if is_within else {})})


def test_refusals_name_the_node(random_numbers: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    case = node(random_numbers, "Attention")
    case.inputs[2] = case.fed("b", floats(random_numbers, (3 * STATES,)))
    case.builder.output(case.builder.node("com.microsoft.Attention", case.inputs, num_heads=HEADS), "float32")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(dmlcpu.MissingRuntimeError, match=r"Attention \(Attention_0\): the bias is not a constant"):
        dmlcpu.InferenceSession(case.builder.build()).run(None, case.feeds)


@given(st.data())
def test_any_sizes(data: st.DataObject) -> None:
    """Forms, sizes, masks and orders in any mix."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    form = data.draw(st.sampled_from(FORMS))
    batch, tokens, heads = (data.draw(st.integers(1, most)) for most in (3, 20, 4))
    case = Node(rng, form, batch, tokens, heads * data.draw(st.integers(1, 9)), heads)
    numbers = [(), (batch,), (batch, tokens), (batch, tokens, tokens)]
    shape = data.draw(st.sampled_from(numbers))
    if shape:
        case.masked(rng.integers(0, tokens + 2 if len(shape) == 1 else 2, shape))
    case.check(unidirectional=data.draw(st.integers(0, 1)), mask_filter_value=data.draw(st.sampled_from([-8.0, -0.5])))


@pytest.mark.parametrize("form", FORMS)
def test_the_same_bits_on_every_device(
    devices: dict[str, dmlcpu.Device], random_numbers: np.random.Generator, form: str
) -> None:
    case = node(random_numbers, form, tokens=19)
    case.masked(masks(BATCH, 19)["keys"])
    case.builder.output(case.builder.node(f"com.microsoft.{form}", case.inputs, num_heads=HEADS), "float32")
    model = case.builder.build()
    sessions = [dmlcpu.InferenceSession(model, device=device) for device in devices.values()]
    first, *others = [np.asarray(session.run(None, case.feeds)[0]) for session in sessions]
    for other in others:
        np.testing.assert_array_equal(other, first)
