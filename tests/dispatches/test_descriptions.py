"""What describe tells of an operator's plan: the kernel and its instruction set, what was chosen, and why."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlcpu
from bound_arrays import compiled
from dmlcpu import ConvolutionIntegerOperatorDesc, Device
from operator_samples import (
    CONVOLUTION,
    MATRIX_MULTIPLY_INTEGER,
    MATRIX_MULTIPLY_TO_FLOAT,
    SAMPLES,
    VALID_DESCS,
    changed,
    tensor,
)
from operator_samples.sample import OperatorSample

# The instruction set of small products of convolutions where that is not the row's.
SMALL_PRODUCTS = {"amx_int8": "avx512_vnni"}


def kernels(isa: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The instruction set of each family's kernel."""
    monkeypatch.setenv("DMLCPU_ISA", isa)
    return dict(dmlcpu.info().kernels)


def lines(device: Device, desc: dmlcpu.OperatorDesc) -> dict[str, str]:
    """The properties of a description by name, each of which it tells once."""
    told = [line.split(": ", 1) for line in compiled(device, desc).describe().splitlines()]
    properties = {name: value for name, value in told}
    assert len(properties) == len(told)
    return properties


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


def convolution(
    channels: int, outputs: int, window: int, data_type: str = "UINT8", size: int = 28, **changes: Any
) -> Any:
    """Of size x size pixels in NHWC memory, as large as they were."""
    groups, pad = changes.get("group_count", 1), window // 2

    def pixels(channels: int, data_type: str) -> Any:
        strides = (size * size * channels, 1, size * channels, channels)
        return tensor(data_type, 1, channels, size, size, strides=strides)

    return changed(
        CONVOLUTION,
        input_tensor=pixels(channels, data_type),
        input_zero_point_tensor=tensor(data_type, 1, 1, 1, 1),
        filter_tensor=tensor("INT8", outputs, channels // groups, window, window),
        filter_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
        filter_zero_point_tensor=None,
        bias_tensor=None,
        output_tensor=pixels(outputs, "UINT8"),
        output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
        **{
            "group_count": 1,
            "start_padding": (pad, pad),
            "end_padding": (pad, pad),
            "strides": (1, 1),
            "dilations": (1, 1),
            **changes,
        },
    )


MULTIPLY_SIGNED = ("scalar", "amx_int8")

REASONS: dict[str, tuple[Any, str]] = {
    "in place": (convolution(64, 64, 1), "in place because every window's codes are unsigned neighbours"),
    "a padded copy": (convolution(64, 64, 5), "copied because windows reach into the padding"),
    "the next pixels": (
        convolution(19, 64, 1),
        "in place because what is read behind a pixel is the next one and meets zeros in the filter",
    ),
    "depthwise": (convolution(64, 64, 3, group_count=64), "every channel is a group of its own"),
    "grouped": (convolution(64, 64, 3, group_count=8), "8 channels of a group would fill a part of a product's"),
    "padding left out": (
        convolution(64, 64, 3, start_padding=(12, 12), end_padding=(12, 12), dilations=(12, 12)),
        "kernel; taps left out because that saves ",
    ),
}


@pytest.mark.parametrize("num_threads", [1, 2])
def test_which_tiles_copy_what_they_read(isa: str, num_threads: int) -> None:
    """But for windows of which tiles in a cache would have much in common."""
    device = Device(isa=isa, num_threads=num_threads)
    level_2 = dmlcpu.info().cache_sizes[1]
    tiles = ", for a tile at a time"
    for desc in (convolution(64, 1, 3, size=56), convolution(4, 1, 3, size=1100), convolution(64, 1, 7, size=112)):
        assert lines(device, desc)["activations"].endswith(tiles)
    far = {"dilations": (20, 20), "start_padding": (20, 20), "end_padding": (20, 20)}
    assert not lines(device, convolution(64, 1, 3, size=math.isqrt(level_2 // 32), **far))["activations"].endswith(
        tiles
    )


@pytest.mark.parametrize(("desc", "why"), REASONS.values(), ids=REASONS.keys())
def test_why_a_convolution_runs_as_it_does(desc: dmlcpu.OperatorDesc, why: str) -> None:
    told = lines(Device(num_threads=1, isa=dmlcpu.available_isas()[-1]), desc)
    assert why in told["why"]


def test_few_terms_by_few_channels_are_small_products(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, row = Device(num_threads=1, isa=isa), kernels(isa, monkeypatch)["gemm"]
    for small in (convolution(3, 16, 3), convolution(32, 16, 1)):
        assert lines(device, small)["kernel"].startswith(f"gemm {SMALL_PRODUCTS.get(isa, row)},")
    for large in (convolution(64, 64, 5), convolution(128, 64, 1)):
        assert lines(device, large)["kernel"].startswith(f"gemm {row},")


def test_which_convolutions_are_products_of_planes(isa: str) -> None:
    """Pointwise ones from planes to planes, of pixels enough for the columns of a product."""

    def algorithm(channels: int, outputs: int, size: int, input_last: bool = False, output_last: bool = False) -> str:
        def pixels(channels: int, is_last: bool) -> Any:
            strides = (size * size * channels, 1, size * channels, channels) if is_last else None
            return tensor("UINT8", 1, channels, size, size, strides=strides)

        planes = {"input_tensor": pixels(channels, input_last), "output_tensor": pixels(outputs, output_last)}
        desc = changed(convolution(channels, outputs, 1, size=size), **planes)
        return lines(Device(num_threads=1, isa=isa), desc)["algorithm"]

    planar = "matrix product of planes, requantized in the same pass"
    for told in (algorithm(64, 64, 28), algorithm(8, 16, 8), algorithm(64, 80, 7)):
        assert (told == planar) == (isa in ("scalar", "amx_int8"))
    others = (
        algorithm(80, 64, 7),
        algorithm(64, 80, 5),
        algorithm(64, 64, 28, True),
        algorithm(64, 64, 28, False, True),
    )
    assert planar not in others


def test_which_depthwise_convolutions_read_planes(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for small images and large windows at stride 1, in rows that have the kernel."""
    has_kernel = "depthwise_planes" in kernels(isa, monkeypatch)

    def told_of(channels: int, window: int, size: int, stride: int = 1) -> dict[str, str]:
        to = (size - 1) // stride + 1
        planes = {
            "input_tensor": tensor("UINT8", 1, channels, size, size),
            "output_tensor": tensor("UINT8", 1, channels, to, to),
        }
        desc = convolution(channels, channels, window, size=size, group_count=channels, strides=(stride, stride))
        return lines(Device(num_threads=1, isa=isa), changed(desc, **planes))

    def reads_planes(channels: int, window: int, size: int, stride: int = 1) -> bool:
        told = told_of(channels, window, size, stride)
        return told["algorithm"] == "depthwise, neighbouring outputs of a plane as lanes"

    def descends(channels: int, window: int, size: int, stride: int = 1) -> bool:
        return "down the image" in told_of(channels, window, size, stride)["lanes"]

    for reads in (
        reads_planes(64, 3, 14),
        reads_planes(64, 3, 300),
        reads_planes(64, 5, 28, 2),
        reads_planes(3, 5, 28),
        reads_planes(64, 7, 7),
    ):
        assert reads == has_kernel
    if has_kernel:
        assert all((descends(64, 3, 28), descends(64, 3, 14), descends(64, 3, 64, 2), descends(3, 5, 28)))
        assert not any((descends(64, 3, 20), descends(3, 3, 7), descends(64, 7, 28)))
    for reads in (reads_planes(64, 3, 7), reads_planes(64, 5, 28), reads_planes(64, 3, 600)):
        assert not reads


def test_threads_share_planes_only_where_an_algorithm_transposes_them_back() -> None:
    """Groups of few channels do where sums become codes; where they are the output, a product writes the planes."""

    codes = changed(convolution(128, 128, 3, group_count=32), output_tensor=tensor("UINT8", 1, 128, 28, 28))
    sums = ConvolutionIntegerOperatorDesc(
        input_tensor=codes.input_tensor,
        input_zero_point_tensor=codes.input_zero_point_tensor,
        filter_tensor=codes.filter_tensor,
        output_tensor=tensor("INT32", 1, 128, 28, 28),
        strides=codes.strides,
        dilations=codes.dilations,
        start_padding=codes.start_padding,
        end_padding=codes.end_padding,
        group_count=codes.group_count,
    )
    share = ["pixels of a plane" in lines(Device(num_threads=2), desc)["threads"] for desc in (codes, sums)]
    assert share == [True, False]


def test_which_windows_stand_in_a_copy_with_their_own_rows() -> None:
    """For kernels whose steps of k are cache lines: where pixels with steps of their own would be more products."""
    if "amx_int8" not in dmlcpu.available_isas():
        pytest.skip("no kernel here has steps of cache lines")

    def activations(desc: Any) -> str:
        return lines(Device(num_threads=1, isa="amx_int8"), desc)["activations"].removesuffix(", for a tile at a time")

    dilated = {"dilations": (1, 2), "start_padding": (1, 2), "end_padding": (1, 2)}
    copy = "read in place from a padded copy of the input"
    for windows in (convolution(16, 64, 3), convolution(3, 64, 7), convolution(8, 64, 5), convolution(80, 80, 3)):
        assert activations(windows) == f"{copy}, in which each window has its own rows"
    for pixels in (convolution(48, 64, 3), convolution(96, 64, 3, size=14), convolution(16, 64, 3, **dilated)):
        assert activations(pixels) == f"{copy}, its pixels whole steps of the kernel apart"
    for packed in (convolution(64, 64, 3), convolution(32, 64, 3), convolution(96, 64, 3), convolution(160, 64, 3)):
        assert activations(packed) == copy


def is_zen_4() -> bool:
    """Whether products of 512 bits take twice the cycles here that they take elsewhere."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    told = dict(re.findall(r"^(vendor_id|cpu family|flags)\s*: (.*)$", text, re.MULTILINE))
    is_family = (told.get("vendor_id"), told.get("cpu family")) == ("AuthenticAMD", "25")
    return is_family and "avx512f" in told["flags"].split()


# Whether a row's products of 8 bits are at most twice as fast as those of 16, and so leave room for transforms.
GAINS_BY_WINOGRAD = ("scalar", "avx2", "avx_vnni", "avx512_vnni")


@pytest.mark.parametrize("num_threads", [1, 2])
def test_which_convolutions_have_a_quarter_of_the_products(isa: str, num_threads: int) -> None:
    device = Device(num_threads=num_threads, isa=isa)

    def is_winograds(desc: Any) -> bool:
        return lines(device, desc)["algorithm"].startswith("Winograd's")

    assert is_winograds(convolution(128, 128, 3, size=56)) == (isa in GAINS_BY_WINOGRAD)
    # Few channels leave less of the gain, unless products are slow.
    gains = isa in ("scalar", "avx2", "avx_vnni") or (isa == "avx512_vnni" and is_zen_4())
    assert is_winograds(convolution(32, 32, 3, size=80)) == gains
    if isa == "avx2":
        block = lines(device, convolution(512, 512, 3, size=7))["block"]
        assert f" by {32 // num_threads} panels, of 32," in block  # each thread transforms its own part of the filter
    others = [
        convolution(120, 128, 3, size=56),
        convolution(128, 128, 3, size=5700),  # transforms of a row of tiles are 13 MB
        convolution(128, 128, 1, size=56),
        convolution(128, 128, 5, size=56),
        convolution(128, 128, 3, size=56, group_count=2),
        convolution(128, 128, 3, size=56, dilations=(2, 2), start_padding=(2, 2), end_padding=(2, 2)),
    ]
    assert not any(is_winograds(desc) for desc in others)


def test_int8_codes_become_unsigned_where_no_kernel_multiplies_signed_ones(isa: str) -> None:
    device = Device(num_threads=1, isa=isa)

    def why(desc: Any) -> str:
        return lines(device, desc)["why"]

    strided = changed(
        convolution(64, 64, 1, "INT8", strides=(3, 3)),
        output_tensor=tensor("UINT8", 1, 64, 10, 10, strides=(6400, 1, 640, 64)),
    )
    owned = product(40, 1, "INT8")
    if isa in MULTIPLY_SIGNED:
        assert "in place because every window's codes are signed neighbours" in why(convolution(64, 64, 1, "INT8"))
        assert why(owned).endswith("; a in place because its codes are signed neighbours in whole steps of the kernel")
        assert why(convolution(64, 64, 5, "INT8")) == "copied because windows reach into the padding"
        assert "INT8 codes" not in why(strided)
        return
    for window in (1, 5):
        assert "ed because INT8 codes become unsigned" in why(convolution(64, 64, window, "INT8"))
    assert why(owned).endswith("; a packed because INT8 codes become unsigned")
    assert why(strided) == (
        "gathered because INT8 codes become unsigned, and not copied because a copy would have more codes than the "
        "windows read"
    )


def test_which_depthwise_convolutions_read_windows_where_they_stand(isa: str) -> None:
    def reads_windows(**changes: Any) -> bool:
        channels, kernel = changes.pop("channels", 32), changes.pop("kernel", 3)
        told = lines(Device(num_threads=1, isa=isa), convolution(channels, channels, kernel, **changes))
        return told["algorithm"].endswith("from the rows of the input")

    assert reads_windows(group_count=32)
    assert reads_windows(group_count=32, kernel=5)
    assert not reads_windows(channels=31, group_count=31)
    assert not reads_windows(kernel=7, group_count=32)
    assert not reads_windows(start_padding=(2, 2), end_padding=(2, 2), dilations=(2, 2), group_count=32)


def test_why_a_convolution_has_so_many_threads() -> None:
    device = Device(num_threads=2)
    small = lines(device, convolution(16, 16, 1))["threads"]
    assert re.fullmatch(
        r"at most 1 of 2 because the work is estimated at [\d.]+ us, and less than 6 us a thread do not pay", small
    )
    large = lines(device, convolution(256, 256, 3))["threads"]
    assert re.fullmatch(r"at most 2 of 2 because the work is estimated at [\d.e+]+ us, .*", large)


def product(rows: int, flags: int = 0, a_type: str = "UINT8", k: int = 256) -> Any:
    return changed(
        MATRIX_MULTIPLY_INTEGER,
        a_tensor=tensor(a_type, 1, 1, rows, k),
        a_zero_point_tensor=None,
        b_tensor=tensor("INT8", 1, 1, k, 512, flags=flags),
        b_zero_point_tensor=None,
        output_tensor=tensor("INT32", 1, 1, rows, 512),
    )


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
    x = dmlcpu.input_tensor(builder, 0, dmlcpu.TensorDesc(dmlcpu.TensorDataType.UINT8, (1, 8, 4, 4)))
    y = dmlcpu.quantized_linear_convolution(x, 0.1, 0, np.ones((8, 8, 1, 1), np.int8), 0.1, None, None, 0.9, 3)
    text = builder.build(dmlcpu.ExecutionFlags.NONE, [y]).describe()
    assert f"; kernel: gemm {SMALL_PRODUCTS.get(isa, rows['gemm'])}, tiles of " in text
