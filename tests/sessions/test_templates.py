"""Sessions plan other shapes by computing the record of a template again; the rules would give the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest

import dmlcpu
import fused_encoders
from conftest import SEED
from dmlcpu.onnx.foreign.parts import ForeignModels
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.planning.plans import LoweredGraph
from dmlcpu.onnx.planning.templates import PlanTemplate
from onnx_models import POINT, Builder, assert_like_onnxruntime, coded
from template_checks import assert_templates_follow_the_rules
from text_encoders import quantized_encoder

MODELS: Final = Path(__file__).parents[1] / "data" / "models"


def with_free_batch(name: str) -> bytes:
    model = onnx.load(MODELS / name)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    return bytes(model.SerializeToString())


def detector(mode: str, spelled: str) -> bytes:
    """Convolutions down and up again, with skips: sizes follow from the image's, in the three ways that exporters have.

    Convolutions of one of two shapes only, so that an image of other sizes decides nothing anew.
    """
    builder = Builder()
    random = np.random.default_rng((SEED, 1))
    x = coded(builder, builder.input("float32", ("batch", 3, "height", "width")))

    def convolved(value: str, inputs: int, **attributes: Any) -> str:
        weights = random.integers(-128, 128, (4, inputs, 3, 3), np.int8)
        filters = builder.dequantized(weights, 0.01, np.int8(0))
        result = builder.node("Conv", [value, filters], **attributes)
        return coded(builder, builder.node("Relu", [result]))

    large = convolved(x, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    small = convolved(large, 4, auto_pad="SAME_UPPER", strides=[2, 2])
    gate = coded(builder, builder.node("Sigmoid", [builder.node("GlobalAveragePool", [small])]))
    small = coded(builder, builder.node("Mul", [small, gate]))
    if spelled == "transposed":
        weights = builder.dequantized(random.integers(-128, 128, (4, 4, 2, 2), np.int8), 0.01, np.int8(0))
        grown = builder.node("ConvTranspose", [small, weights], strides=[2, 2])
    elif spelled == "sizes":
        shape = builder.node("Shape", [large])
        ends = builder.node("Slice", [shape, np.array([2]), np.array([4]), np.array([0])])
        starts = builder.node("Slice", [builder.node("Shape", [small]), np.array([0]), np.array([2]), np.array([0])])
        sizes = builder.node("Concat", [starts, builder.node("Cast", [ends], to=7)], axis=0)
        grown = builder.node("Resize", [small, "", "", sizes], mode=mode, coordinate_transformation_mode="asymmetric")
    else:
        grown = builder.node("Resize", [small, "", np.float32([1, 1, 2, 2])], mode=mode)
    grown = coded(builder, grown)
    joined = coded(
        builder, builder.node("Concat", [coded(builder, builder.node("Add", [grown, large])), large], axis=1)
    )
    flat = builder.node("Reshape", [joined, np.array([0, 8, -1])])
    builder.output(builder.node("Transpose", [flat], perm=[0, 2, 1]), "float32", ("batch", "places", 8))
    return builder.build()


IMAGES: Final = [
    {"x": (count, 3, height, width)}
    for count in (1, 2, 5)
    for height, width in ((32, 32), (64, 32), (16, 48), (96, 160))
]
DETECTORS: Final = [
    ("nearest", "scales"),
    ("linear", "scales"),
    ("nearest", "sizes"),
    ("linear", "sizes"),
    ("", "transposed"),
]


@pytest.mark.parametrize(("mode", "spelled"), DETECTORS)
def test_images_of_all_sizes(mode: str, spelled: str) -> None:
    """One template for one image and several."""
    assert_templates_follow_the_rules(detector(mode, spelled), IMAGES, 1)


@pytest.mark.parametrize("options", [{"mode": "cubic"}, {"mode": "linear", "antialias": 1}], ids=str)
@pytest.mark.parametrize("spelled", ["scales", "sizes"])
def test_images_interpolated_by_many_weights(spelled: str, options: Any) -> None:
    builder = Builder(18)
    x = coded(builder, builder.input("float32", ("batch", 3, "height", "width")))
    given = [np.float32([1, 1, 0.5, 0.4])]
    if spelled == "sizes":
        starts = builder.node("Slice", [builder.node("Shape", [x]), np.array([0]), np.array([2]), np.array([0])])
        given = ["", builder.node("Concat", [starts, np.array([24, 20])], axis=0)]
    grown = builder.node("Resize", [x, "", *given], **options)
    builder.output(coded(builder, grown), "float32", ("batch", 3, "rows", "columns"))
    assert_templates_follow_the_rules(builder.build(), IMAGES, 2)


@pytest.mark.parametrize("form", ["qdq", "qop"])
@pytest.mark.parametrize("network", ["keyword_spotting", "keyword_spotting_mobilenetv2", "visual_wake_words"])
def test_batches(network: str, form: str) -> None:
    model = with_free_batch(f"{network}.{form}.onnx")
    [value] = dmlcpu.InferenceSession(model).get_inputs()
    shapes = [{value.name: (count, *value.shape[1:])} for count in (1, 2, 3, 8, 32)]
    assert_templates_follow_the_rules(model, shapes, 1)


TEXTS: Final = [
    {"input_ids": (count, tokens), "attention_mask": (count, tokens)}
    for count, tokens in ((1, 5), (1, 1), (1, 24), (2, 3), (3, 3), (3, 20), (2, 20), (4, 24), (24, 4))
]


@pytest.mark.parametrize("style", ["added mask", "masked scores", "counted positions", "indexed mask"])
@pytest.mark.parametrize("form", ["dynamic", "static"])
def test_texts(style: str, form: str) -> None:
    assert_templates_follow_the_rules(quantized_encoder(style, form), TEXTS, 3)


@pytest.mark.parametrize("style", fused_encoders.STYLES)
@pytest.mark.parametrize("form", fused_encoders.FORMS)
def test_fused_texts(style: str, form: str) -> None:
    assert_templates_follow_the_rules(fused_encoders.fused_encoder(style, form), TEXTS, 3)


def test_a_session_gives_the_results_of_a_new_one(random_numbers: np.random.Generator) -> None:
    model = detector("linear", "sizes")
    session = dmlcpu.InferenceSession(model)
    for shape in IMAGES:
        x = random_numbers.normal(size=shape["x"]).astype(np.float32)
        [ours] = session.run(None, {"x": x})
        [expected] = dmlcpu.InferenceSession(model).run(None, {"x": x})
        np.testing.assert_array_equal(ours, expected)
    assert [template.uses for template in session._plans.variants.whole.templates._templates] == [12]


@pytest.mark.parametrize("repetition", range(3))
def test_threads_that_meet_images_at_once(repetition: int) -> None:
    """The first ones, too: one thread makes the template, each graph is made of another thread's."""
    model = detector("linear", "sizes")
    random = np.random.default_rng((SEED, repetition))
    images = [random.normal(size=shape["x"]).astype(np.float32) for shape in IMAGES]
    session = dmlcpu.InferenceSession(model)
    with ThreadPoolExecutor(8) as threads:
        results = [*threads.map(lambda x: session.run(None, {"x": x})[0], images * 2)]
    for x, ours in zip(images * 2, results, strict=True):
        [expected] = dmlcpu.InferenceSession(model).run(None, {"x": x})
        np.testing.assert_array_equal(ours, expected)
    assert [template.uses for template in session._plans.variants.whole.templates._templates] == [len(images)]


def shape_arithmetic() -> bytes:
    """A reshape by what is computed of a shape: in floats, with halves, negative quotients, products, comparisons."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", "height", "width")))
    shape = builder.node("Shape", [x])
    floats = builder.node("Cast", [shape], to=1)
    halves = builder.node("Ceil", [builder.node("Mul", [floats, np.float32(0.37)])])
    are_equal = builder.node("Equal", [halves, np.float32([1, 5, 30])])
    area = builder.node("ReduceProd", [shape], keepdims=1)
    negative = builder.node("Div", [builder.node("Sub", [np.int64([1]), area]), np.int64([7])])
    chosen = builder.node("Where", [builder.node("Gather", [are_equal, np.int64([0])]), np.int64([-1]), area])
    flat = builder.node("Reshape", [builder.node("Sigmoid", [x]), chosen])
    builder.output(coded(builder, flat), "float32")
    for value in (halves, negative, are_equal):
        builder.output(value, "float32" if value == halves else "int64" if value == negative else "bool")
    return builder.build()


def test_arithmetic_of_shapes() -> None:
    """Its results are returned, which binds: what counts is that each template is right."""
    shapes = [{"x": shape} for shape in ((1, 2, 3), (2, 2, 3), (13, 13, 1), (13, 13, 80), (3, 81, 5), (1, 1, 1))]
    assert_templates_follow_the_rules(shape_arithmetic(), shapes, len(shapes))


def test_numbers_of_a_shape_beyond_their_type() -> None:
    builder = Builder()
    x = builder.input("float32", ("batch", 3))
    large = builder.node("Mul", [builder.node("Shape", [x]), np.int64(1 << 62)])
    number = builder.node("Gather", [builder.node("Cast", [large], to=1), np.int64(0)])
    builder.output(builder.node("Add", [x, number]), "float32")
    builder.output(builder.node("Mod", [large, np.int64(1000)]), "int64")
    model = builder.build()
    session = dmlcpu.InferenceSession(model)
    for count in (1, 2, 3, 4):
        x = np.ones((count, 3), np.float32)
        expected = dmlcpu.InferenceSession(model).run(None, {"x": x})
        for ours, theirs in zip(session.run(None, {"x": x}), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_inputs_of_any_rank() -> None:
    builder = Builder()
    x, y = (builder.input("float32", (), name) for name in ("x", "y"))
    for value in builder.inputs:
        value.type.tensor_type.ClearField("shape")
    for value in (x, y):
        builder.output(coded(builder, builder.node("Sigmoid", [value])), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for shapes in (((2,), (2, 3)), ((4,), (2, 3)), ((2, 3), (4,)), ((5, 2), (3,)), ((2,), (3, 3, 3))):
        results = session.run(
            None, {name: np.zeros(shape, np.float32) for name, shape in zip("xy", shapes, strict=True)}
        )
        assert [result.shape for result in results] == [*shapes]


def test_lengths_of_one_name() -> None:
    """They are one length to a template that met them as one; those that are not, whatever the model says, are two."""
    builder = Builder()
    given = [builder.input("float32", ("batch", 3), name) for name in ("x", "y")]
    both = builder.node("Concat", [coded(builder, builder.node("Sigmoid", [value])) for value in given], axis=0)
    builder.output(both, "float32")
    model = builder.build()
    alike = [{"x": (count, 3), "y": (count, 3)} for count in (2, 3, 7)]
    assert_templates_follow_the_rules(model, alike, 1)
    others = [{"x": (count, 3), "y": (4, 3)} for count in (9, 3, 5, 4)]
    assert_templates_follow_the_rules(model, [*alike, *others], 2)
    session = dmlcpu.InferenceSession(model)
    for shapes in (*alike, *others, *alike):
        feeds = {name: np.full(shape, 0.3, np.float32) for name, shape in shapes.items()}
        expected = dmlcpu.InferenceSession(model).run(None, feeds)
        np.testing.assert_array_equal(session.run(None, feeds), expected)


def test_unusual_shapes_do_not_end_it() -> None:
    """An empty batch has a template of its own; later shapes get one."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", 3)))
    builder.output(coded(builder, builder.node("Sigmoid", [x])), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for count in (1, 0, 0, *range(2, 30)):
        assert session.run(None, {"x": np.zeros((count, 3), np.float32)})[0].shape == (count, 3)
    templates = session._plans.variants.whole.templates._templates
    assert len(templates) <= 2
    assert max(template.uses for template in templates) > 10


def test_a_rule_that_asserts_what_holds_of_known_lengths() -> None:
    """A resized constant is as large as the image: it is planned anew each time."""
    builder = Builder()
    x = coded(builder, builder.input("float32", (1, 2, "height", "width")))
    codes = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    sizes = builder.node("Shape", [x])
    grown = builder.node("Resize", [builder.dequantized(codes, 0.1, POINT), "", "", sizes], mode="nearest")
    builder.output(coded(builder, builder.node("Add", [x, grown])), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for size in (4, 8, 12, 16):
        assert session.run(None, {"x": np.zeros((1, 2, size, size), np.float32)})[0].shape == (1, 2, size, size)


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_a_padded_constant(mode: str) -> None:
    """Of codes that are dequantized, padded to the image's size: a constant."""
    builder = Builder()
    x = builder.input("float32", (1, 2, 6, 6))
    codes = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    padded = builder.node(
        "Pad", [builder.dequantized(codes, 0.1, POINT), np.int64([0, 0, 1, 1, 0, 0, 1, 1])], mode=mode
    )
    builder.output(builder.node("Add", [x, padded]), "float32")
    feeds = {"x": np.linspace(-1, 1, 72, dtype=np.float32).reshape(1, 2, 6, 6)}
    assert_like_onnxruntime(builder.build(), feeds)


def sliced(start: int, end: int, step: int) -> bytes:
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", "width")))
    limits = [np.int64([value]) for value in (start, end, 1, step)]
    builder.output(coded(builder, builder.node("Slice", [x, *limits])), "float32")
    return builder.build()


@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize(("start", "end"), [(0, 1 << 62), (1, -1), (-3, 1 << 31), (2, 6), (-100, 3), (0, -2)])
def test_slices_of_a_free_axis(start: int, end: int, step: int) -> None:
    shapes = [{"x": (count, width)} for count in (2, 3) for width in (7, 9, 20, 90)]
    assert_templates_follow_the_rules(sliced(start, end, step), shapes, 1)


@pytest.mark.parametrize("indices", [0, -1, [-1], [1, 0, 1]], ids=str)
def test_a_look_up_along_a_free_axis(indices: Any) -> None:
    """Such as of the first token's states, or the last one's."""
    builder = Builder()
    x = coded(builder, builder.input("float32", ("batch", "tokens", 8)))
    builder.output(builder.node("Gather", [x, np.int64(indices)], axis=1), "float32")
    shapes = [{"x": (count, tokens, 8)} for count in (2, 3) for tokens in (2, 5, 9)]
    assert_templates_follow_the_rules(builder.build(), shapes, 1)


@pytest.mark.parametrize("on_codes", [False, True])
@pytest.mark.parametrize("axes", [[1], [-1], [0, 1], [1, 2]], ids=str)
def test_sums_along_free_axes(axes: list[int], on_codes: bool) -> None:
    """Of codes they are averages, whose scale follows from the lengths."""
    builder = Builder()
    x = builder.input("float32", ("batch", "tokens", 8))
    value = coded(builder, x) if on_codes else builder.node("Exp", [x])
    total = builder.node("ReduceSum", [value, np.int64(axes)])
    builder.output(coded(builder, total) if on_codes else total, "float32")
    model = builder.build()
    shapes = [{"x": (count, tokens, 8)} for count in (2, 3) for tokens in (2, 5, 9)]
    assert_templates_follow_the_rules(model, shapes, 1)
    assert_like_onnxruntime(model, {"x": np.linspace(-0.5, 0.4, 2 * 5 * 8, dtype=np.float32).reshape(2, 5, 8)})


def product_of_batches(form: str, weights: np.ndarray[Any, Any]) -> bytes:
    """A product with constant weights, as recipes leave it."""
    builder = Builder()
    x = builder.input("float32", ("batch", "tokens", 16))
    if form == "floats":
        y = builder.node("MatMul", [x, weights.astype(np.float32)])
    elif form == "static":
        y = coded(builder, builder.node("MatMul", [coded(builder, x), builder.dequantized(weights, 0.01, np.int8(0))]))
    else:
        codes, scale, point = builder.node("DynamicQuantizeLinear", [x], 3)
        sums = builder.node("MatMulInteger", [codes, weights, point, np.int8(0)])
        if form == "sums":
            y = sums
        else:
            floats = builder.node("Cast", [sums], to=1)
            y = builder.node("Mul", [floats, builder.node("Mul", [scale, np.float32(0.01)])])
    builder.output(y, "int32" if form == "sums" else "float32")
    return builder.build()


@pytest.mark.parametrize("form", ["floats", "static", "dynamic", "sums"])
@pytest.mark.parametrize("batch", [(), (1,)], ids=str)
def test_weights_are_packed_once_for_all_batches(
    form: str, batch: tuple[int, ...], random_numbers: np.random.Generator
) -> None:
    """They are overwritten when they have been packed, which nobody sees."""
    model = product_of_batches(form, random_numbers.integers(-128, 128, (*batch, 16, 24), np.int8))
    loaded, device = load_model(model, to_run=True), dmlcpu.Device(num_threads=1)
    template: PlanTemplate | None = None
    for shape in ((4, 3, 16), (4, 7, 16), (9, 1, 16), (2, 1, 16)):
        arrays = {"x": (np.dtype(np.float32), shape)}
        if template is None:
            template = PlanTemplate.of(loaded, arrays, device, ForeignModels())
            assert template is not None
            [part] = template.lowered.parts
            assert isinstance(part, LoweredGraph)
            constants = part.graph.constants
            [number] = [value for value, array in constants.items() if np.shape(array)[-2:] == (16, 24)]
            weights = constants[number] = np.array(constants[number])
        replay = template.replay(loaded, arrays)
        assert replay is not None
        graph = template.graphs[0].compiled(replay, device)
        x = random_numbers.normal(size=shape).astype(np.float32)
        [expected] = dmlcpu.InferenceSession(model).run(None, {"x": x})
        np.testing.assert_array_equal(graph.dispatch(x=x), expected)
        weights[...] = 0


def test_masks_that_are_added_to_products_of_codes() -> None:
    """Are part of a template: they are made for each length, and no length is planned anew for them."""
    builder = Builder()
    rows = coded(builder, builder.input("float32", ("rows", 16)))
    count = builder.node("Gather", [builder.node("Shape", [rows]), np.int64(0)])
    places = builder.node("Range", [np.int64(0), count, np.int64(1)])
    earlier, later = (builder.node("Unsqueeze", [places, np.int64([axis])]) for axis in (0, 1))
    mask = builder.node("Where", [builder.node("LessOrEqual", [earlier, later]), np.float32(0), np.float32(-1000)])
    scores = builder.node("MatMul", [rows, builder.node("Transpose", [rows], perm=[1, 0])])
    builder.output(builder.node("Softmax", [builder.node("Add", [scores, mask])]), "float32")
    model = builder.build()
    assert_templates_follow_the_rules(model, [{"x": (count, 16)} for count in (7, 9, 30)], 1)
    for count in (7, 9, 30):
        assert_like_onnxruntime(model, {"x": np.random.default_rng(SEED).normal(size=(count, 16)).astype(np.float32)})
