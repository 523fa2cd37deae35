"""What callers give a session that it cannot take: feeds, names, shapes, options."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import dmlcpu
from argument_forms import Broken, Mute
from dmlcpu.onnx.feeds import checked_feeds, given_value
from dmlcpu.onnx.models.model import ValueInfo
from doubling_model import X, doubled, expected
from onnx_models import Builder


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (None, r"input_feed: got None, expected a mapping from names to arrays: x"),
        ([X], r"input_feed: got an object of type list, expected a mapping from names to arrays: x"),
        ({"x": [[1, 2, 3], [1, 2]]}, r"input 'x': got an object of type list \(.*\), expected uint8 of shape \(2, 3\)"),
        (
            {"x": [[1, 2, 3], [4, 5, 256]]},
            r"input 'x': got int64 of shape \(2, 3\), from 1 to 256, expected uint8 of shape",
        ),
        ({"x": [[1, 2, 3], [4, 5, -1]]}, r"input 'x': got int64 of shape \(2, 3\), from -1 to 5, expected uint8"),
        ({"x": [[1, 2, 3], [4, 5, 6.5]]}, r"input 'x': got float64 of shape \(2, 3\), from 1.0 to 6.5, expected uint8"),
        ({"x": [[np.nan] * 3] * 2}, r"input 'x': got float64 of shape \(2, 3\), of NaN alone, expected uint8 of shape"),
        (
            {"x": [[np.nan, 2, 3]]},
            r"input 'x': got float64 of shape \(1, 3\), from 2.0 to 3.0, expected uint8 of shape",
        ),
        ({"x": [[1, 2, 3]]}, r"input 'x': got uint8 of shape \(1, 3\), expected uint8 of shape \(2, 3\)"),
        (
            {"x": X.astype(np.int64)},
            r"input 'x': got int64 of shape \(2, 3\), expected uint8 of shape \(2, 3\)"
            r"; nothing is cast: np.asarray\(x, np.uint8\)$",
        ),
        ({"x": X[:1].astype(np.int64)}, r"got int64 of shape \(1, 3\), expected uint8 of shape \(2, 3\)$"),
        ({"x": None}, r"input 'x': got None, expected uint8 of shape \(2, 3\)$"),
        ({"x": "abc"}, r"input 'x': got 'abc', expected uint8 of shape \(2, 3\)$"),
        (
            {"x": np.ma.masked_equal(X, 0)},
            "input 'x': got an array with masked elements, expected one without masked elements, such as its filled",
        ),
        ({"x": X, 3: X}, "got input 3, expected one of x"),
        ({}, "got no input 'x', expected uint8 of shape"),
        ({"y": X, "z": X}, "got no input 'x' but 'y', 'z', expected uint8 of shape"),
    ],
)
def test_feeds_that_are_none(feeds: Any, message: str) -> None:
    session = dmlcpu.InferenceSession(doubled())
    for call in (session.run, session.run_async):
        with pytest.raises(dmlcpu.BindingError, match=message):
            call(None, feeds)


def test_objects_that_raise_anything() -> None:
    builder = Builder()
    builder.output(builder.node("Relu", [builder.input("float32", (3,))]), "float32")
    session = dmlcpu.InferenceSession(builder.build())
    for error in (ZeroDivisionError("division"), KeyError("key"), OSError("disk"), Mute()):
        with pytest.raises(dmlcpu.BindingError, match=r"^input 'x': got an object of type Broken \(") as raised:
            session.run(None, {"x": Broken(error)})
        assert raised.value.__cause__ is error
        with pytest.raises(
            dmlcpu.BindingError, match=r"^values: got .*Broken object.* for input 'n', expected one int64$"
        ):
            given_value(ValueInfo("n", np.dtype(np.int64), ()), {"n": Broken(error)})
    with pytest.raises(MemoryError):
        session.run(None, {"x": Broken(MemoryError())})


def test_constants_that_are_none() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }
    """)
    session = dmlcpu.InferenceSession(model.SerializeToString())
    x, own = np.float32([3, 4]), np.float32([1, 2])
    for given in (own, np.ma.masked_array(own)):
        assert session.run(None, {"x": x, "w": given})[0].tolist() == [4, 6]
    for given in (np.ma.masked_array(own, [False, True]), own[:1], own.astype(np.float64)):
        with pytest.raises(dmlcpu.BindingError, match=r"^input 'w': got another array than the model's"):
            session.run(None, {"x": x, "w": given})
    for error in (KeyError("key"), Mute()):
        got = rf"an object of type Broken \({type(error).__name__ if isinstance(error, Mute) else error}\)"
        with pytest.raises(dmlcpu.BindingError, match=rf"^input 'w': got {got}, expected the model's own") as raised:
            session.run(None, {"x": x, "w": Broken(error)})
        assert raised.value.__cause__ is error
    with pytest.raises(MemoryError):
        session.run(None, {"x": x, "w": Broken(MemoryError())})


def test_strings_are_numpys_of_either_kind() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (string[2] t, float[2] x) => (string[2] u, float[2] y) '
    model = onnx.parser.parse_model(text + "{ u = Identity (t) y = Relu (x) }").SerializeToString()
    session = dmlcpu.InferenceSession(model)
    x, words = np.float32([1, 2]), np.array(["one", "two"])
    for given in (words, words.astype(object), words.astype(np.dtypes.StringDType()), words.tolist()):
        assert session.run(["u"], {"t": given, "x": x})[0].tolist() == ["one", "two"]
    for given in (words, words.astype(np.dtypes.StringDType())):
        with pytest.raises(
            dmlcpu.BindingError, match=r"'x': got .* of shape \(2,\), expected float32 of shape \(2,\)$"
        ):
            session.run(None, {"t": words, "x": given})
    with pytest.raises(dmlcpu.BindingError, match=r"; nothing is cast: np\.asarray\(x, np\.float32\)$"):
        session.run(None, {"t": words, "x": x.astype(object)})
    with pytest.raises(
        dmlcpu.BindingError, match=r"'t': got float32 of shape \(2,\), expected strings of shape \(2,\)$"
    ):
        session.run(None, {"t": x, "x": x})


@pytest.mark.parametrize(
    ("name", "held", "refused"),
    [
        ("int4", [[1, -8], [7, True]], [[8], [-9], [1.0], [float("nan")]]),
        ("uint4", [[0, 15]], [[-1], [16]]),
        (
            "bfloat16",  # 3.39e38 is nearer to its largest number than to the next power of 2
            [[1.0, 2.5], [1, -(2**40)], [float("-inf"), 3.39e38, -3.39e38], [float("nan")], []],
            [[1e300], [-3.4e38], ["1"]],
        ),
        ("float8_e4m3fn", [[448.0, -448], [float("nan")]], [[449.0], [float("inf")]]),
        ("float4_e2m1fn", [[6.0, -0.5]], [[7.0], [float("nan")], [float("inf")]]),
        ("float8_e5m2", [[57344.0, 61439.0, True, -1], [float("nan")], [float("inf")]], [[-61441], [1e300], ["1"]]),
    ],
)
def test_lists_of_numbers_for_types_that_numpy_lacks(name: str, held: list[Any], refused: list[Any]) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    value = ValueInfo("x", dtype, (None,))
    for numbers in held:
        array = checked_feeds([value], (), dict, {"x": numbers})["x"]
        assert array.dtype == dtype
        np.testing.assert_array_equal(array.astype(np.float32), np.array(numbers, dtype).astype(np.float32))
    for numbers in refused:
        with pytest.raises(dmlcpu.BindingError, match=f"^input 'x': got .* of shape .*, expected {name} of shape"):
            checked_feeds([value], (), dict, {"x": numbers})
    with pytest.raises(dmlcpu.BindingError, match=rf", as numpy's arrays have it by ml_dtypes\.{name}$"):
        checked_feeds([value], (), dict, {"x": Broken(TypeError("no such type"))})
    for given in (np.float32([1]), np.array([1.5], object), np.array([1], ml_dtypes.float8_e4m3)):
        with pytest.raises(dmlcpu.BindingError, match=rf"; nothing is cast: np\.asarray\(x, ml_dtypes\.{name}\)$"):
            checked_feeds([value], (), dict, {"x": given})
    single = ValueInfo("x", np.dtype(np.float32), (None,))
    with pytest.raises(dmlcpu.BindingError, match=r"; nothing is cast: np\.asarray\(x, np\.float32\)$"):
        checked_feeds([single], (), dict, {"x": np.array([1], dtype)})


def test_wrong_names_are_told_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(doubled())
    session = dmlcpu.InferenceSession(path)
    path.unlink()
    for feeds, message in (
        ({}, "got no input 'x', expected uint8"),
        ({"y": X}, "got no input 'x' but 'y', expected uint8"),
        ({"x": X, "y": X}, "got input 'y', expected one of x"),
    ):
        with pytest.raises(dmlcpu.BindingError, match=message):
            session.run(None, feeds)


def test_lengths_of_one_name_that_differ() -> None:
    builder = Builder()
    x, y = (builder.input(np.float32, ("count", 4), name) for name in "xy")
    builder.output(builder.quantized(builder.node("Add", [x, y]), 0.5, np.uint8(9)), "uint8")
    session = dmlcpu.InferenceSession(builder.build())
    two, three = np.zeros((2, 4), np.float32), np.zeros((3, 4), np.float32)
    with pytest.raises(dmlcpu.BindingError, match="'count' is 2 in input 'x' and 3 in input 'y': "):
        session.run(None, {"x": two, "y": three})
    assert session.run(None, {"x": two, "y": two})[0].shape == (2, 4)


def test_lengths_without_a_name_may_differ() -> None:
    builder = Builder()
    x, y = (builder.input(np.float32, ("", 4), name) for name in "xy")
    for value in (x, y):
        builder.output(
            builder.quantized(builder.node("Add", [value, np.zeros((5, 4), np.float32)]), 0.5, np.uint8(9)), "uint8"
        )
    told = r"^node Add \(Add_0\): shapes \(2, 4\) and \(5, 4\) do not fit together; fed: x \(2, 4\), y \(3, 4\)$"
    with pytest.raises(dmlcpu.BindingError, match=told):
        dmlcpu.InferenceSession(builder.build()).run(
            None, {"x": np.zeros((2, 4), np.float32), "y": np.zeros((3, 4), np.float32)}
        )


def test_an_instruction_set_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLCPU_ISA", "avx9")
    with pytest.raises(dmlcpu.UnsupportedIsaError, match="DMLCPU_ISA='avx9': no instruction set has this name"):
        dmlcpu.InferenceSession(doubled())


def test_inputs_that_a_model_has_not() -> None:
    with pytest.raises(dmlcpu.BindingError, match=r"^values: got input 'x', expected none at all$"):
        dmlcpu.InferenceSession(doubled()).partitions(values={"x": 1})


def test_sources_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"^path_or_bytes: the path is empty$"):
        dmlcpu.InferenceSession("")
    model = onnx.load_model_from_string(doubled())
    with pytest.raises(
        TypeError, match="path_or_bytes: got an object of type ModelProto, expected a path or bytes, such"
    ):
        dmlcpu.InferenceSession(model)  # type: ignore[arg-type]
    sources: list[tuple[Any, str]] = [
        (bytearray(doubled()), r", such as bytes\(...\) of it"),
        (memoryview(doubled()), r", such as bytes\(...\) of it"),
        (BytesIO(doubled()), r", such as its getvalue\(\)"),
        (None, ""),
        ([], ""),
    ]
    for source, hint in sources:
        got = f"an object of type {type(source).__name__}"
        with pytest.raises(TypeError, match=f"^path_or_bytes: got {got}, expected a path or bytes{hint}$"):
            dmlcpu.InferenceSession(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cpu", 1, dmlcpu.Device])
def test_devices_that_are_none(device: Any) -> None:
    with pytest.raises(TypeError, match=r"^device: got an object of type .*, expected a dmlcpu.Device or None"):
        dmlcpu.InferenceSession(doubled(), device=device)


def test_shapes_of_no_input() -> None:
    session = dmlcpu.InferenceSession(doubled(("N", 3)))
    with pytest.raises(dmlcpu.BindingError, match="shapes: got input 'z', expected one of x"):
        session.partitions({"z": (2, 3)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (5, "shapes: got an object of type int, expected a mapping from names of inputs: x"),
        ([(2, 3)], "shapes: got an object of type list, expected a mapping from names of inputs: x"),
        ({"x": None}, r"input 'x': got shape None, expected a sequence of lengths, \(N, 3\)$"),
        ({"x": 2}, r"input 'x': got shape 2, expected a sequence of lengths, \(N, 3\)$"),
        ({"x": "23"}, r"input 'x': got shape '23', expected a sequence of lengths, \(N, 3\)$"),
        ({"x": (-1, 3)}, r"input 'x': got shape \(-1, 3\), expected lengths of 0 and more, \(N, 3\)$"),
        ({"x": (None, 3)}, r"input 'x': got shape \(None, 3\), expected lengths of 0 and more"),
        ({"x": (2.0, 3)}, r"input 'x': got shape \(2.0, 3\), expected lengths of 0 and more"),
        (
            {"x": (1 << 70, 3)},
            r"input 'x': got shape \(an integer of 71 bits, 3\), expected at most 2\*\*48 elements, \(N, 3\)$",
        ),
        ({"x": (1 << 48, 3)}, r"input 'x': got shape \(\d+, 3\), expected at most 2\*\*48 elements, \(N, 3\)$"),
        ({"x": (2, 4)}, r"input 'x': got shape \(2, 4\), expected \(N, 3\)"),
        ({"x": (2, 3, 1)}, r"input 'x': got shape \(2, 3, 1\), expected \(N, 3\)"),
    ],
)
def test_shapes_that_are_none(shapes: Any, message: str) -> None:
    session = dmlcpu.InferenceSession(doubled(("N", 3)))
    with pytest.raises(dmlcpu.BindingError, match=f"^{message}"):
        session.partitions(shapes)


@pytest.mark.parametrize("shape", [[2, 3], np.array([2, 3]), range(2, 4)])
def test_shapes_may_be_of_any_integers(shape: Any) -> None:
    session = dmlcpu.InferenceSession(doubled(("N", 3)))
    assert session.partitions({"x": shape}) == session.partitions({"x": (2, 3)}) != session.partitions()


def test_values_that_are_none() -> None:
    session = dmlcpu.InferenceSession(doubled())
    with pytest.raises(dmlcpu.BindingError, match=r"^values: got an object of type int, expected a mapping .*: none"):
        session.partitions(values=5)  # type: ignore[arg-type]


def test_numbers_of_threads() -> None:
    """Those below 0 are as many as there are processors, as 0 is, and as onnxruntime has it."""
    options = dmlcpu.SessionOptions()
    options.intra_op_num_threads = 1025
    with pytest.raises(ValueError, match=r"num_threads=1025; expected .* from 1 to 1024, or 0 for all"):
        dmlcpu.InferenceSession(doubled(), options)
    options.intra_op_num_threads = -1
    usual = dmlcpu.InferenceSession(doubled()).device.num_threads
    assert dmlcpu.InferenceSession(doubled(), options).device.num_threads == usual


@pytest.mark.parametrize("names", ["value2_0", 5, [3], ["nothing"], [None]])
def test_names_of_outputs_that_are_none(names: Any) -> None:
    session = dmlcpu.InferenceSession(doubled())
    with pytest.raises(dmlcpu.BindingError, match=r"value2_0"):
        session.run(names, {"x": X})
    for every in (None, [], (), session._names):
        np.testing.assert_array_equal(session.run(every, {"x": X})[0], expected(X))


@pytest.mark.parametrize(
    "operator", ["Add", "Concat", "DequantizeLinear", "Gather", "MatMul", "QuantizeLinear", "Where"]
)
def test_nodes_without_inputs(operator: str) -> None:
    """They are not computed beforehand as those of constants alone are."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) '
        f"{{ [node] t = {operator}() y = Add(x, t) }}"
    )
    with pytest.raises(dmlcpu.InvalidModelError, match=rf"{operator} \("):
        dmlcpu.InferenceSession(model.SerializeToString()).run(None, {"x": np.ones(2, np.float32)})


@pytest.mark.parametrize("operator", ["Max", "Mean", "Min", "Sum", 'Einsum <equation="ab,ab->ab">'])
@pytest.mark.parametrize("is_branch", [False, True])
def test_operands_that_are_left_out(operator: str, is_branch: bool) -> None:
    """Onnxruntime ends the process on them."""
    node = f'[node] y = {operator}(x, "")'
    if is_branch:
        node = f"y = If <then_branch = b () => (y) {{ {node} }}, else_branch = c () => (y) {{ y = Neg(x) }}> (t)"
    inputs = "float[2,2] x, bool t" if is_branch else "float[2,2] x"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[2,2] y) {{ {node} }}'
    ).SerializeToString()
    feeds = {"x": np.ones((2, 2), np.float32), "t": np.array(True)}
    with pytest.raises(dmlcpu.InvalidModelError, match="it has no input 1, without which onnxruntime"):
        dmlcpu.InferenceSession(model).run(None, feeds if is_branch else {"x": feeds["x"]})


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ('QLinearConcat <axis = 0> (s, z, x, "", z, x, s, z)', 3),
        ('QLinearConcat <axis = 0> (s, z, x, scales, "", x, s, z)', 4),
        ('QLinearConcat <axis = 0> (s, z, x, scales, z, "", s, z)', 5),
        ("QLinearSigmoid (x, scales, z, s)", 4),
        ('QLinearLeakyRelu (x, scales, z, s, "")', 4),
    ],
)
def test_operands_of_codes_that_are_left_out(node: str, missing: int) -> None:
    """Onnxruntime, which would run these for their several scales, ends the process on them."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (uint8[2] x, bool[2] t) => (uint8[n] y) '
        "<float s = {0.5}, float[2] scales = {0.5, 0.25}, uint8 z = {3}> "
        f"{{ [named] y = com.microsoft.{node} }}"
    )
    with pytest.raises(dmlcpu.InvalidModelError, match=f"(named).*it has no input {missing}, without which"):
        dmlcpu.InferenceSession(model.SerializeToString()).run(
            None, {"x": np.zeros(2, np.uint8), "t": np.ones(2, bool)}
        )


@pytest.mark.parametrize("reader", ["Trilu", "Transpose", "QuantizeLinear"])
def test_an_operand_that_is_not_there_is_told_of(reader: str) -> None:
    """Of a node of nothing, whose result is no array that another node, or a model for onnxruntime, can have."""
    builder = Builder()
    value = builder.node("Transpose", [""])
    inputs: list[Any] = [np.ones((2, 3), np.float32), value] if reader == "QuantizeLinear" else [value]
    result = builder.node("Cast", [builder.node(reader, inputs)], to=onnx.TensorProto.FLOAT)
    builder.output(builder.node("Add", [builder.input("float32", (2, 3)), result]), "float32")
    with pytest.raises(dmlcpu.InvalidModelError, match="Transpose_0"):
        dmlcpu.InferenceSession(builder.build()).run(None, {"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("operator", "count", "message"),
    [("Concat", 2, "its attribute 'axis' is missing"), ("Gather", 1, "got 1 input, expected 2")],
)
def test_what_nodes_lack(operator: str, count: int, message: str) -> None:
    builder = Builder(3)
    x = builder.input(np.float32, (2, 3))
    builder.output(builder.node(operator, [x] * count), np.float32)
    with pytest.raises(dmlcpu.InvalidModelError, match=message):
        dmlcpu.InferenceSession(builder.build())


def test_a_profile_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is refused before anything runs."""
    session = dmlcpu.InferenceSession(doubled())
    monkeypatch.setattr(session, "_run", None)
    with pytest.raises(TypeError, match="PathLike"):
        session.profile(None, {"x": X})  # type: ignore[arg-type]
