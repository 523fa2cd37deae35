"""Products of operands with more or fewer axes than matrices with two batch axes, and Einsum, beside onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import dmlcpu
from conftest import SEED
from onnx_cases import POINTS, SCALE
from onnx_models import Builder, assert_like_onnxruntime, codes, steps_of
from template_checks import assert_templates_follow_the_rules

SHAPES: Final = (
    ((2, 3, 2, 5, 7), (2, 3, 2, 7, 6)),
    ((2, 3, 2, 2, 5, 7), (2, 3, 2, 2, 7, 6)),
    ((1, 1, 1, 5, 7), (1, 1, 1, 7, 6)),
    ((2, 3, 1, 5, 7), (2, 3, 4, 7, 6)),
    ((2, 3, 2, 5, 7), (2, 7, 6)),
    ((1, 3, 2, 5, 7), (2, 3, 2, 7, 6)),
    ((2, 3, 2, 5, 7), (7, 6)),
    ((7, 3), (2, 3, 1, 2, 3, 6)),
    ((5, 7), (7,)),
    ((7,), (2, 3, 7, 6)),
    ((2, 1, 3, 4, 7), (7,)),
    ((7,), (7,)),
)
EQUATIONS: Final = (
    ("bhlk,bhtk->bhlt", (2, 3, 5, 7), (2, 3, 4, 7)),
    ("bhlt,bhtv->bhlv", (2, 3, 5, 4), (2, 3, 4, 7)),
    ("bchw,bcij->bhwij", (2, 6, 3, 4), (2, 6, 5, 2)),
    ("nkctv,kvw->nctw", (2, 3, 4, 5, 6), (3, 6, 7)),
    ("ij,kj", (5, 7), (4, 7)),
    ("...ij,...jk->...ik", (2, 3, 5, 7), (2, 3, 7, 4)),
    ("...ij,jk->...ik", (2, 3, 5, 7), (7, 4)),
    ("...ij,jk", (2, 3, 5, 7), (7, 4)),
    ("i ...j, j...-> ...i", (5, 2, 7), (7, 2)),
    ("bchw,bc->bchw", (2, 3, 4, 5), (2, 3)),
    ("i,j->ij", (5,), (4,)),
    ("bhc,hcd->bhd", (2, 3, 5), (3, 5, 4)),
    ("i,i->", (5,), (5,)),
)


def products(operator: str, shapes: Any, options: dict[str, Any], operands: str, *, quantized: bool = True) -> bytes:
    """A product of codes and codes, of codes and constant ones, or of floats."""
    builder, values = Builder(), []
    for name, shape, kind in zip("xw", shapes, operands, strict=True):
        if kind == "f":
            values.append(builder.input("float32", shape, name))
        elif kind == "c":
            values.append(builder.dequantized(builder.input("uint8", shape, name), SCALE, POINTS["uint8"]))
        else:
            array = np.random.default_rng((SEED, 1)).integers(-128, 128, shape, np.int8)
            columns = shape[-1]
            scales = np.linspace(0.004, 0.02, columns, dtype=np.float32)
            per_column = columns > 1 and operator == "MatMul" and len(shape) > 1
            options_of_scale = {"axis": len(shape) - 1} if per_column else {}
            points = np.zeros(columns, np.int8) if per_column else np.int8(3)
            values.append(builder.dequantized(array, scales if per_column else 0.01, points, **options_of_scale))
    result = builder.node(operator, values, **options)
    if quantized:
        builder.output(builder.quantized(result, 0.27, POINTS["uint8"]), "uint8")
    builder.output(result, "float32")
    return builder.build()


@pytest.mark.parametrize("operands", ["cc", "ck", "ff", "cf", "fk"])
@pytest.mark.parametrize("case", [*SHAPES, *EQUATIONS], ids=str)
def test_products(random_numbers: np.random.Generator, case: Any, operands: str) -> None:
    operator, shapes, options = "MatMul", case, {}
    if isinstance(case[0], str):
        operator, shapes, options = "Einsum", case[1:], {"equation": case[0]}
    feeds = {}
    for name, shape, kind in zip("xw", shapes, operands, strict=True):
        if kind == "c":
            feeds[name] = codes(random_numbers, "uint8", shape)
        elif kind == "f":
            feeds[name] = random_numbers.standard_normal(shape, np.float32)
    assert_like_onnxruntime(products(operator, shapes, options, operands), feeds, 1)


@pytest.mark.parametrize("shapes", [SHAPES[0], SHAPES[4]], ids=str)
def test_operators_on_codes(random_numbers: np.random.Generator, shapes: Any) -> None:
    x, w = (codes(random_numbers, "uint8", shape) for shape in shapes)
    point, scale = np.uint8(121), np.float32(SCALE)
    builder = Builder()
    names = builder.input("uint8", x.shape), builder.input("uint8", w.shape, "w")
    inputs = [names[0], scale, point, names[1], scale, point, np.float32(0.5), point]
    builder.output(builder.node("QLinearMatMul", inputs), "uint8")
    sums = builder.node("MatMulInteger", [*names, point, point])
    builder.output(sums, "int32")
    builder.output(builder.node("Mul", [builder.node("Cast", [sums], to=1), scale]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": x, "w": w}, 1)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ijk->kij", [(2, 3, 4)]), ("...i->i...", [(2, 3, 4)]), ("ab", [(3, 4)])], ids=str
)
def test_one_operand(random_numbers: np.random.Generator, equation: str, shapes: Any) -> None:
    builder = Builder()
    value = builder.dequantized(builder.input("uint8", shapes[0]), SCALE, POINTS["uint8"])
    result = builder.node("Einsum", [value], equation=equation)
    builder.output(builder.quantized(result, SCALE, POINTS["uint8"]), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", shapes[0])})


SEVERAL: Final = (
    ("bln,bsn,bls,bsd->bld", (2, 6, 4), (2, 5, 4), (2, 6, 5), (2, 5, 7)),
    ("ij,jk,kl->il", (6, 3), (3, 7), (7, 5)),
    ("ij,jk,kl->il", (6, 7), (7, 6), (6, 2)),
    ("ij,jk,kl->li", (3, 4), (4, 5), (5, 2)),
    ("bhtd,bhsd,bhs", (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5)),
    ("...ij,...jk,...kl->...il", (2, 3, 4, 5), (2, 3, 5, 4), (2, 3, 4, 3)),
    ("...ij, jk, k -> ...i", (2, 3, 5), (5, 4), (4,)),
    ("ab,ab,ab->ab", (3, 4), (3, 4), (3, 4)),
    ("ab,ab,ab->a", (3, 4), (3, 4), (3, 4)),
    ("i,j,k->kji", (3,), (4,), (5,)),
    ("abc,dbe,fce->adf", (2, 3, 4), (5, 3, 6), (7, 4, 6)),
    ("i,j,ij->", (3,), (4,), (3, 4)),
    ("abc,adc,ade,abe->a", (2, 3, 4), (2, 5, 4), (2, 5, 6), (2, 3, 6)),
)


def contraction(equation: str, shapes: Any, operands: str) -> tuple[bytes, dict[str, Any]]:
    """A model of codes, of constant ones ("k"), of floats and constant floats ("w"); and what is fed to it."""
    builder, rng, feeds = Builder(), np.random.default_rng((SEED, 2)), {}
    values: list[Any] = []
    for index, (shape, kind) in enumerate(zip(shapes, operands, strict=False)):
        array = codes(rng, "int8" if kind == "k" else "uint8", shape)
        floats = rng.standard_normal(shape, np.float32)
        if kind in "cf":
            feeds[f"x{index}"] = array if kind == "c" else floats
            value = builder.input(feeds[f"x{index}"].dtype, shape, f"x{index}")
            values.append(builder.dequantized(value, 0.01, POINTS["uint8"]) if kind == "c" else value)
        else:
            values.append(builder.dequantized(array, 0.01, np.int8(3)) if kind == "k" else floats)
    result = builder.node("Einsum", values, equation=equation)
    builder.output(builder.quantized(result, 0.07, POINTS["uint8"]), "uint8")
    builder.output(builder.node("Neg", [result]), "float32")
    return builder.build(), feeds


@pytest.mark.parametrize("operands", ["cccc", "ffff", "cfcf", "ckkc", "fkwf", "kkcc", "wwff"])
@pytest.mark.parametrize("case", SEVERAL, ids=str)
def test_several_operands(case: Any, operands: str) -> None:
    model, feeds = contraction(case[0], case[1:], operands)
    assert_like_onnxruntime(model, feeds, 1)


@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        ([(20, 2), (2, 30), (30, 3)], [60 + 90 + 6, 40 + 6 + 60]),
        ([(3, 30), (30, 2), (2, 20)], [90 + 60 + 6, 6 + 40 + 60]),
        ([(3, 4), (4, 3), (3, 3)], [12 + 12 + 9, 9 + 9 + 9]),
    ],
    ids=str,
)
def test_the_smallest_products_of_two_are_taken_first(shapes: Any, sizes: list[int]) -> None:
    model, _ = contraction("ij,jk,kl->il", shapes, "fff")
    [partition] = dmlcpu.InferenceSession(model).partitions()
    assert [step.size for step in partition.steps[:2]] == [4 * size for size in sizes]


@pytest.mark.parametrize("operands", ["wwf", "kkc", "wkf", "fww"])
def test_products_of_constants_are_computed_once(operands: str) -> None:
    shapes = ((3, 4), (4, 5), (5, 6)) if operands != "fww" else ((60, 5), (5, 6), (6, 3))
    steps = steps_of(contraction("ij,jk,kl->il", shapes, operands)[0])
    assert steps.count("FLOAT_PRODUCT") == 1
    assert not [name for name in steps if "MATRIX" in name]


def test_several_operands_of_free_lengths() -> None:
    """One template while the order of products stays as it is."""
    builder = Builder()
    shapes = {"c": ("b", "l", 4), "d": ("b", "s", 4), "e": ("b", "l", "s"), "x": ("b", "s", 7)}
    values = [builder.input("float32", shape, name) for name, shape in shapes.items()]
    builder.output(builder.node("Einsum", values, equation="bln,bsn,bls,bsd->bld"), "float32")
    lengths = [
        {"c": (b, length, 4), "d": (b, s, 4), "e": (b, length, s), "x": (b, s, 7)}
        for b, length, s in ((2, 3, 4), (3, 3, 4), (2, 9, 8), (5, 16, 17))
    ]
    assert_templates_follow_the_rules(builder.build(), lengths, 1)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii->i", [(3, 3)]),
        ("ij->i", [(3, 4)]),
        ("ij,jk->k", [(3, 4), (4, 5)]),
        ("ij,jk,kl->l", [(3, 4), (4, 5), (5, 2)]),
        ("ij,jk,kk->ik", [(3, 4), (4, 5), (5, 5)]),
        (",".join(["i"] * 9) + "->i", [(3,)] * 9),
        ("...ij,...jk->...ik", [(2, 3, 4), (1, 4, 5)]),
    ],
    ids=str,
)
def test_what_is_left_to_onnxruntime(random_numbers: np.random.Generator, equation: str, shapes: Any) -> None:
    builder = Builder()
    feeds = {f"x{index}": random_numbers.standard_normal(shape, np.float32) for index, shape in enumerate(shapes)}
    names = [builder.input("float32", array.shape, name) for name, array in feeds.items()]
    builder.output(builder.node("Einsum", names, equation=equation), "float32")
    model = builder.build()
    assert_like_onnxruntime(model, feeds, native=False)
    assert [part.provider for part in dmlcpu.InferenceSession(model).partitions()] == ["onnxruntime"]


def test_batches_that_alternate_are_left_to_onnxruntime(random_numbers: np.random.Generator) -> None:
    shapes = (2, 1, 2, 5, 7), (3, 2, 7, 6)
    feeds = {name: random_numbers.standard_normal(shape, np.float32) for name, shape in zip("xw", shapes, strict=True)}
    assert_like_onnxruntime(products("MatMul", shapes, {}, "ff", quantized=False), feeds, native=False)


@pytest.mark.parametrize(
    ("equation", "others"),
    [
        ("ab,cb,cb->bac", [(4, "b")] * 2),
        ("ab,cb->bac", [(4, "b")]),
        ("ab,cb->ca", [(4, "b")]),
        ("ab,bc,c->a", [("b", 4), (4,)]),
    ],
)
def test_sums_of_nothing(equation: str, others: list[tuple[int | str, ...]]) -> None:
    """Onnxruntime ends the process on operands without elements."""
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, "b")), SCALE, POINTS["uint8"])
    factors = [builder.input("float32", shape, f"y{index}") for index, shape in enumerate(others)]
    builder.output(builder.node("Einsum", [x, *factors], equation=equation), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for length in (3, 0, 5, 0):
        shapes = [(2, length), *(tuple(length if n == "b" else int(n) for n in shape) for shape in others)]
        arrays = [np.ones(shape, np.uint8 if index == 0 else np.float32) for index, shape in enumerate(shapes)]
        [result] = session.run(
            None, {info.name: array for info, array in zip(session.get_inputs(), arrays, strict=True)}
        )
        floats = [(arrays[0] - np.float32(POINTS["uint8"])) * np.float32(SCALE), *arrays[1:]]
        expected = np.einsum(equation, *floats)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, 1e-6)


def test_a_refused_sum_of_nothing() -> None:
    builder = Builder()
    x = builder.dequantized(builder.input("uint8", (2, "b")), SCALE, POINTS["uint8"])
    builder.output(
        builder.node("Einsum", [x, builder.input("float32", (4, "b", "b"), "y")], equation="ab,cbb->ac"), "float32"
    )
    session = dmlcpu.InferenceSession(builder.build())
    feeds = {"x": np.ones((2, 0), np.uint8), "y": np.ones((4, 0, 0), np.float32)}
    with pytest.raises(dmlcpu.BindingError, match="has no elements to compute with"):
        session.run(None, feeds)
