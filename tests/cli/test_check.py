"""What check calls a large difference: where onnxruntime's optimizer, or codes that nobody sees, make one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import dmlcpu
from command_line import made_model, partly_quantized, run, saved, succeeded
from conftest import SEED
from dmlcpu.cli import comparison
from dmlcpu.cli.check import _verdict
from dmlcpu.cli.comparison import Row
from dmlcpu.cli.dequantized_codes import codes_behind
from dmlcpu.cli.differences import Difference
from dmlcpu.cli.groups import find_groups
from dmlcpu.cli.reference_sessions import reference_session
from dmlcpu.cli.visible_codes import with_visible_codes
from dmlcpu.onnx import model_values
from dmlcpu.onnx.lowering import Lowering
from dmlcpu.onnx.models.model import load_model
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.rules.matrix.products import times
from dmlcpu.onnx.values import Value
from onnx_models import POINT, Builder


class _Changed:
    """A session whose results of some kind are others."""

    def __init__(self, session: Any, kinds: str) -> None:
        self._session, self._kinds = session, kinds

    def run(self, names: list[str], feeds: Any) -> list[NDArray[Any]]:
        return [self._changed(array) for array in self._session.run(names, feeds)]

    def _changed(self, array: NDArray[Any]) -> NDArray[Any]:
        if array.dtype.kind not in self._kinds:
            return array
        changed = array * np.float32(1.01) if array.dtype.kind == "f" else array ^ 4
        return changed.astype(array.dtype)


def _rows(told: str) -> dict[str, list[str]]:
    return {line.split("  ")[0]: line.split() for line in told.splitlines()}


@pytest.mark.parametrize("kinds", ["f", "iu"])
def test_what_the_optimizer_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: str) -> None:
    """Floats that agree with the graph as it is do not count; codes of 8 bits do, and the table tells of both."""
    opened = comparison.reference_session

    def session(onnxruntime: Any, model: Any, *, is_optimized: bool = True) -> Any:
        own = opened(onnxruntime, model, is_optimized=is_optimized)
        return _Changed(own, kinds) if is_optimized else own

    monkeypatch.setattr(comparison, "reference_session", session)
    result = run("check", partly_quantized(tmp_path))
    rows = _rows(result.stdout)
    assert result.stdout.splitlines()[0].split()[-1] == "unoptimized"
    if kinds == "f":
        assert result.exit_code == 0
        assert result.stdout.splitlines()[-1] == (
            "passed: 4 of 5 operators are equal, 1 differs by more from onnxruntime's optimizer alone; "
            "the first is trilu"
        )
        assert rows["trilu"][-1] == "0"
    else:
        assert result.exit_code == 1
        assert result.stdout.splitlines()[-1] == (
            "failed: 1 of 5 operators are equal, 4 differ by more than the limits "
            "(1 code; 1e-4 of the largest float); the first is quantize_x"
        )
        assert rows["quantize_a"][4] == "4"
        assert rows["quantize_a"][-1] == "0"


def test_the_verdict_tells_what_differs_within_the_limits() -> None:
    def row(node: str, largest: float, in_codes: bool) -> Row:
        found = Difference(largest, in_codes, 0.5, (0,) if largest else None)
        return Row(node, "Conv", "dmlcpu", found, None, found.is_large)

    rows = [row("a", 0, True), row("b", 1, True), row("c", 1.2e-7, False)]
    within = "(1 code; 1e-4 of the largest float)"
    assert _verdict(rows[:1]) == "passed: 1 of 1 operators are equal"
    assert (
        _verdict(rows[:2])
        == f"passed: 1 of 2 operators are equal, 1 differs within the limits {within}; the first is b"
    )
    assert _verdict(rows) == f"passed: 1 of 3 operators are equal, 2 differ within the limits {within}; the first is b"
    assert _verdict([*rows, row("d", 2, True), row("e", 1.1e-4, False)]) == (
        f"failed: 1 of 5 operators are equal, 2 differ within the limits {within}, 2 differ by more than the limits; "
        "the first is d"
    )


def test_a_difference_from_both_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(21)
    x = builder.dequantized(builder.input("uint8", (3, 8)), 0.05, POINT)
    builder.output(builder.node("Neg", [x], name="negated"), "float32")
    path = tmp_path / "model.onnx"
    path.write_bytes(builder.build())
    assert run("check", path, "--seed", SEED).exit_code == 0
    rules = {**model_values.RULES, ("", "Neg"): lambda lowering, node, inputs: [inputs[0]]}
    monkeypatch.setattr(model_values, "RULES", rules)
    result = run("check", path, "--seed", SEED)
    assert result.exit_code == 1
    row = next(line for line in result.stdout.splitlines() if line.startswith("negated"))
    assert row.split("  ")[-1].strip() == "2.0e+00 of max"
    assert result.stdout.splitlines()[-1].startswith("failed: ")
    assert result.stdout.splitlines()[-1].endswith("; the first is negated")


def test_weights_of_4_bits_beside_floats(tmp_path: Path) -> None:
    """Onnxruntime's optimizer rounds the floats to 8 bits, which the model does not say."""
    rng, builder = np.random.default_rng(SEED), Builder(21)
    codes = rng.integers(-8, 8, (64, 16)).astype(ml_dtypes.int4)
    scales = rng.uniform(0.1, 0.2, (2, 16)).astype(np.float32)
    x = builder.input("float32", (4, 64))
    weights = builder.node("DequantizeLinear", [codes, scales], axis=0, block_size=32)
    builder.output(builder.node("MatMul", [x, weights], name="product"), "float32")
    path = tmp_path / "model.onnx"
    path.write_bytes(builder.build())
    told = succeeded("check", path, "--seed", SEED)
    assert told.splitlines()[-1].startswith("passed: ")


def _of_dynamic_codes(path: Path) -> Path:
    """A product that quantizes floats, many of which are in the middle between two codes."""
    rng, operator = np.random.default_rng(SEED), "DynamicQuantizeMatMul"
    nodes = [
        helper.make_node("Mul", ["x", "unit"], ["floats"], "mul"),
        helper.make_node(operator, ["floats", "w", "scale", "", "bias"], ["y"], "y", domain="com.microsoft"),
        helper.make_node(operator, ["floats", "w", "scale"], ["z"], "product", domain="com.microsoft"),
        helper.make_node("Relu", ["y"], ["relu"], "rectified"),
    ]  # fmt: skip
    outputs = {name: (TensorProto.FLOAT, [8, 16]) for name in ("relu", "z")}
    model = made_model(
        nodes, {"x": (TensorProto.FLOAT, [8, 128])}, outputs, unit=np.float32(0.0123), scale=np.float32(0.01),
        w=rng.integers(-128, 128, (128, 16), np.int8), bias=rng.normal(0, 1, 16).astype(np.float32),
    )  # fmt: skip
    return saved(model, path / "dynamic.onnx")


def test_scales_of_zeros_are_compared(tmp_path: Path) -> None:
    """Such as behind a Relu of negative numbers: onnxruntime's is 1, as others are what it divides by."""
    for number, scale in ((-1, np.float32(1)), (0.5, np.float32(0.5) / 255)):
        builder = Builder()
        x = builder.node("Relu", [builder.input("float32", (2, 3))])
        outputs = builder.node("DynamicQuantizeLinear", [x], count=3)
        for output, dtype in zip(outputs, ("uint8", "float32", "uint8"), strict=True):
            builder.output(output, dtype)
        model = tmp_path / "zeros.onnx"
        model.write_bytes(builder.build())
        np.save(tmp_path / "x.npy", np.full((2, 3), number, np.float32))
        told = succeeded("check", model, tmp_path / "x.npy")
        assert told.splitlines()[-1] == "passed: 1 of 1 operators are equal"
        codes, found, _ = dmlcpu.InferenceSession(model.read_bytes()).run(None, {"x": np.load(tmp_path / "x.npy")})
        assert found == scale
        assert codes.max() == (255 if number > 0 else 0)


def test_recurrent_layers_are_compared_on_one_thread(tmp_path: Path) -> None:
    """Of which onnxruntime has other results on several, as it quantizes the states of a batch in parts."""
    rng, builder = np.random.default_rng(SEED), Builder()
    x = builder.input("float32", (7, 4, 12))
    weights = [rng.integers(-128, 128, (1, rows, 4 * 32)).astype(np.int8) for rows in (12, 32)]
    scales = [np.float32([0.002]), np.zeros(1, np.int8)] * 2
    inputs = [x, *weights, "", "", "", "", "", *scales]
    builder.output(builder.node("com.microsoft.DynamicQuantizeLSTM", inputs, hidden_size=32), "float32")
    model = tmp_path / "recurrent.onnx"
    model.write_bytes(builder.build())
    assert "\npassed: " in succeeded("check", model)
    session = reference_session(onnxruntime, load_model(model).proto)
    assert session.get_session_options().intra_op_num_threads == 1


def test_codes_within_a_product_are_compared(tmp_path: Path) -> None:
    path = _of_dynamic_codes(tmp_path)
    x = np.random.default_rng(SEED).integers(0, 255, (8, 128)).astype(np.float32) + np.float32(0.5)
    x[0, 0], x[0, 1] = 255, 0
    np.save(tmp_path / "x.npy", x)
    told = succeeded("check", path, tmp_path / "x.npy")
    rows = _rows(told)
    assert rows["y/quantize"][1:5] == ["Mul", "DynamicQuantizeLinear", "dmlcpu", "0"]
    assert rows["rectified"][1:4] == ["MatMulIntegerToFloat", "Relu", "dmlcpu"]
    assert rows["product"][1:3] == ["MatMulIntegerToFloat", "dmlcpu"]
    assert told.splitlines()[-1].startswith("passed: ")
    assert " of 3 operators are equal" in told


def test_products_share_the_codes_that_they_make(tmp_path: Path) -> None:
    model = load_model(_of_dynamic_codes(tmp_path))
    assert [node.operator for node in with_visible_codes(model).nodes] == [
        "Mul", "DynamicQuantizeLinear", "MatMulIntegerToFloat", "MatMulIntegerToFloat", "Relu",
    ]  # fmt: skip
    spelled_out = with_visible_codes(model)
    assert with_visible_codes(spelled_out) is spelled_out


@pytest.mark.parametrize("level", [0, 4])
def test_groups_end_where_a_product_quantizes_its_rows(level: int) -> None:
    rng = np.random.default_rng(SEED)
    sizes = {"K": 32, "N": 8, "bits": 4, "block_size": 32, "accuracy_level": level}
    nodes = [
        helper.make_node("Neg", ["x"], ["negated"], "neg"),
        helper.make_node("MatMulNBits", ["negated", "w", "s"], ["y"], "product", domain="com.microsoft", **sizes),
    ]
    shapes = {"x": (TensorProto.FLOAT, [3, 32])}, {"y": (TensorProto.FLOAT, [3, 8])}
    proto = made_model(nodes, *shapes, w=rng.integers(0, 256, (8, 1, 16), np.uint8), s=rng.random(8, np.float32))
    groups = find_groups(load_model(proto.SerializeToString()), dict.fromkeys(("negated", "y"), np.dtype(np.float32)))
    assert [group.node.name for group in groups] == (["neg", "product"] if level == 4 else ["product"])


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4])
def test_codes_behind_floats(dtype: Any) -> None:
    """All of a type, in order: neighbours differ by 1."""
    if np.dtype(dtype).name.startswith("float8"):
        codes = np.arange(256, dtype=np.uint8).view(dtype)
        floats = codes.astype(np.float32)
        floats = np.unique(floats[np.isfinite(floats)])
    else:
        floats = np.arange(16, dtype=np.float32) - 8
    for scale in (np.float32(0.0123), np.float32(1), np.float32(3e7)):
        found = codes_behind(floats * scale, scale, np.dtype(dtype))
        assert found is not None
        assert np.array_equal(np.diff(found), np.ones(floats.size - 1))


def test_no_codes_behind_floats() -> None:
    floats, e4m3 = np.float32([1, 2]), np.dtype(ml_dtypes.float8_e4m3fn)
    assert codes_behind(floats, np.float32(0), e4m3) is None
    assert codes_behind(floats, np.float32(1), np.dtype(np.void)) is None
    assert codes_behind(np.float32([np.nan]), np.float32(1), e4m3) is None
    assert codes_behind(floats.astype(np.float64), np.float32(1), e4m3) is None


@pytest.mark.parametrize(("factor", "largest"), [(1.06, 1), (2, 8)])
def test_float8_is_compared_in_its_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, largest: int
) -> None:
    """Numbers of FLOAT8 are 6 to 12 % apart, and by one they differ where floats before them are rounded otherwise."""
    builder = Builder(21)
    parameters = [np.float32(0.0625), np.zeros((), ml_dtypes.float8_e4m3fn)]
    value = builder.node("Abs", [builder.input("float32", (64,))])
    for name in ("first", "second"):
        codes = builder.node("QuantizeLinear", [value, *parameters])
        value = builder.node("Neg", [builder.node("DequantizeLinear", [codes, *parameters], name=name)])
    builder.output(value, "float32")
    path = tmp_path / "model.onnx"
    path.write_bytes(builder.build())
    absolute = model_values.RULES["", "Abs"]

    def changed(lowering: Lowering, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value]:
        return [times(lowering, value, np.float32(factor)) for value in absolute(lowering, node, inputs)]

    monkeypatch.setattr(model_values, "RULES", {**model_values.RULES, ("", "Abs"): changed})
    result = run("check", path, "--seed", SEED)
    assert result.exit_code == (largest > 1), result.stdout
    rows = _rows(result.stdout)
    assert rows["first"][1:4] == ["Abs", "dmlcpu", str(largest)]
    assert rows["second"][1:4] == ["Neg", "dmlcpu", "0"]


def test_int8_codes_without_a_zero_point(tmp_path: Path) -> None:
    """Onnxruntime takes them for UINT8 before a product of three axes and a sum, unless it is told a zero point."""
    rng, builder = np.random.default_rng(SEED), Builder(17)
    codes = builder.input("int8", (1, 8, 64))
    a = builder.node("DequantizeLinear", [codes, np.float32(0.02)])
    w = builder.node("DequantizeLinear", [rng.integers(-127, 128, (64, 32)).astype(np.int8), np.float32(0.004)])
    y = builder.node("Add", [builder.node("MatMul", [a, w]), rng.standard_normal(32).astype(np.float32)])
    builder.output(builder.node("QuantizeLinear", [y, np.float32(0.05), np.int8(0)], name="product"), "int8")
    path = tmp_path / "model.onnx"
    path.write_bytes(builder.build())
    result = run("check", path, "--seed", SEED)
    assert _rows(result.stdout)["product"][1:5] == ["MatMul", "Add", "dmlcpu", "0"]
    assert result.exit_code == 0
