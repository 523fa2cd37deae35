"""What describe tells of an operator's plan: the kernel and its instruction set, what was chosen, and why."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dmlcpu
from bound_arrays import compiled
from dmlcpu import Device
from operator_samples import MATRIX_MULTIPLY_TO_FLOAT, SAMPLES, VALID_DESCS, changed, tensor
from operator_samples.sample import OperatorSample
from plan_descriptions import SMALL_PRODUCTS, convolution, kernels, lines, product


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda sample: sample.operator.name)
def test_the_kernel_and_its_instruction_set(isa: str, sample: OperatorSample, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = kernels(isa, monkeypatch)
    if "CONVOLUTION" in sample.operator.name:
        rows["gemm"] = SMALL_PRODUCTS.get(isa, rows["gemm"])
    told = lines(Device(isa=isa, num_threads=1), sample.desc)
    families = sample.families
    kernel = told["kernel" if len(families) == 1 else "kernels"]
    assert [re.match(r"\w+ \w+", part)[0] for part in kernel.split(", ")[: len(families)]] == [  # type: ignore[index]
        f"{family} {rows[family]}" for family in families
    ]
    if families == ("gemm",):
        assert re.search(r", tiles of \d+ x \d+, \d+ terms? a step$", kernel)
    assert not re.search(r"\b1 \w*(tasks|threads|columns|rows|terms|parts|groups|pixels|images)\b", str(told))


def test_why_a_matrix_product_runs_as_it_does() -> None:
    device = Device(num_threads=1)
    assert lines(device, product(4))["why"] == (
        "b streamed because b is not owned, and 4 rows would not make up for packing it whole; "
        "a packed because products take a block of its terms at a time"
    )
    assert lines(device, product(1))["why"].startswith("b streamed because b is not owned, and 1 row would")
    owned = lines(device, product(4, flags=1))["why"]
    assert owned.startswith("b packed whole because b is owned; a in place because its codes are unsigned")
    assert lines(device, product(2000))["why"].startswith("b packed whole because 2000 rows of a use it; a ")
    assert lines(device, product(2000))["threads"].startswith("1 of 1, for ")
    two = Device(num_threads=2)
    assert lines(two, product(2000))["threads"].startswith("2 of 2, for ")
    assert lines(two, product(4, flags=1, k=16))["threads"].startswith("1 of 2, for ")  # they would not pay


def test_rows_that_are_whole_pages_apart_are_packed(isa: str) -> None:
    """Where a tile of the kernel has more of them than the level-1 cache has ways."""
    device = Device(num_threads=1, isa=isa)
    has_many_rows = isa in ("avx512_vnni", "amx_int8")
    expected = "; a packed because its rows are whole pages apart" if has_many_rows else "; a in place because "
    assert expected in lines(device, product(40, 1, k=8192))["why"]
    assert "; a in place because " in lines(device, product(8, 1, k=8192))["why"]
    assert "; a in place because " in lines(device, product(40, 1, k=4096 + 64))["why"]


def test_why_a_matrix_product_is_in_floating_point(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = kernels(isa, monkeypatch)
    desc = changed(
        MATRIX_MULTIPLY_TO_FLOAT,
        a_tensor=tensor("INT16", *MATRIX_MULTIPLY_TO_FLOAT.a_tensor.sizes),  # type: ignore[attr-defined]
        a_zero_point_tensor=None,
    )
    told = lines(Device(isa=isa), desc)
    assert told["kernel"] == f"float_product {rows['float_product']}"
    assert "more than 8 bits" in told["why"]


def test_one_line_on_stderr(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DMLCPU_VERBOSE", "1")
    compiled(Device(num_threads=1), convolution(64, 64, 1))
    [line] = capfd.readouterr().err.splitlines()
    assert "; kernel: gemm " in line
    assert "; why: in place because " in line


@pytest.mark.usefixtures("no_environment")
@pytest.mark.parametrize("value", ["1", "0", None])
def test_verbose_prints_one_line_for_each_compiled_operator(
    value: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if value is not None:
        monkeypatch.setenv("DMLCPU_VERBOSE", value)
    device = Device()
    operators = [device.create_operator(desc) for desc in VALID_DESCS.values()]
    for operator in operators:
        device.compile_operator(operator)
    printed = capsys.readouterr()
    assert printed.out == ""
    told = printed.err.splitlines()
    assert len(told) == (len(operators) if value == "1" else 0)
    for line, operator in zip(told, operators, strict=False):
        assert line.startswith("dmlcpu: ")
        assert operator.type.name in line
        assert device.isa in line


def test_graphs_tell_it_of_each_step(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = kernels(isa, monkeypatch)
    builder = dmlcpu.GraphBuilder(Device(isa=isa))
    x = dmlcpu.input_tensor(builder, 0, dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (1, 12, 4, 4)))
    y = dmlcpu.quantized_linear_convolution(x, 0.1, 0, np.ones((12, 12, 1, 1), np.int8), 0.1, None, None, 0.9, 3)
    text = builder.build(dmlcpu.ExecutionFlags.NONE, [y]).describe()
    assert f"; kernel: gemm {SMALL_PRODUCTS.get(isa, rows['gemm'])}, tiles of " in text
