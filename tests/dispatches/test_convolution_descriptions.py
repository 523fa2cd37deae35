"""What describe tells of a convolution's plan: its algorithm, what is copied, gathered or shared, and why."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

import dmlcpu
from dmlcpu import ConvolutionIntegerOperatorDesc, Device
from operator_samples import changed, tensor
from plan_descriptions import SMALL_PRODUCTS, convolution, kernels, lines, product

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
    long = convolution(8, 9, 2, size=1100, end_padding=(0, 0))
    for desc in (convolution(58, 13, 5, size=112), long, convolution(64, 13, 7, size=112)):
        assert lines(device, desc)["activations"].endswith(tiles)
    far = {"dilations": (20, 20), "start_padding": (20, 20), "end_padding": (0, 0)}
    assert not lines(device, convolution(64, 13, 2, size=math.isqrt(level_2 // 32), **far))["activations"].endswith(
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


def test_windows_much_higher_than_wide_read_no_planes(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But with steps, and of channels that would fill a part of a vector."""
    has_kernel = "depthwise_planes" in kernels(isa, monkeypatch)

    def reads_planes(channels: int, rows: int, columns: int, stride: int = 1) -> bool:
        planes = {
            "input_tensor": tensor("UINT8", 1, channels, 28, 28),
            "filter_tensor": tensor("INT8", channels, 1, rows, columns),
            "output_tensor": tensor("UINT8", 1, channels, (28 - rows) // stride + 1, (28 - columns) // stride + 1),
        }
        around = {"start_padding": (0, 0), "end_padding": (0, 0), "strides": (stride, stride)}
        desc = changed(convolution(channels, channels, 3, group_count=channels, **around), **planes)
        told = lines(Device(num_threads=1, isa=isa), desc)
        return told["algorithm"] == "depthwise, neighbouring outputs of a plane as lanes"

    assert not any((reads_planes(64, 5, 1), reads_planes(16, 11, 2)))
    for reads in (reads_planes(64, 11, 1, 2), reads_planes(15, 5, 1), reads_planes(64, 8, 2), reads_planes(64, 1, 11)):
        assert reads == has_kernel


def test_threads_share_planes_only_where_an_algorithm_transposes_them_back() -> None:
    """Groups of few channels do, of codes as of sums; a product writes the planes itself."""

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
    product = convolution(128, 128, 1)
    share = ["pixels of a plane" in lines(Device(num_threads=64), desc)["threads"] for desc in (codes, sums, product)]
    assert share == [True, True, False]


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

    for channels, groups in ((128, 1), (126, 1), (125, 1), (128, 2)):
        desc = convolution(channels, 128, 3, size=56, group_count=groups)
        assert is_winograds(desc) == (isa in GAINS_BY_WINOGRAD)
        if is_winograds(desc):
            assert ("of each of 2 groups" in lines(device, desc)["block"]) == (groups == 2)
    # Few channels leave less of the gain, unless products are slow.
    gains = isa in ("scalar", "avx2", "avx_vnni") or (isa == "avx512_vnni" and is_zen_4())
    assert is_winograds(convolution(32, 32, 3, size=80)) == gains
    if isa == "avx2":
        block = lines(device, convolution(512, 512, 3, size=7))["block"]
        assert f" by {32 // num_threads} panels, of 32," in block  # each thread transforms its own part of the filter
    others = [
        convolution(124, 128, 3, size=56, group_count=2),
        convolution(128, 128, 3, size=5700),  # transforms of a row of tiles are 13 MB
        convolution(128, 128, 1, size=56),
        convolution(128, 128, 5, size=56),
        convolution(64, 64, 3, size=56, group_count=4),
    ]
    assert not any(is_winograds(desc) for desc in others)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_which_dilated_convolutions_have_a_quarter_of_the_products(isa: str, num_threads: int) -> None:
    """But for those of which a product leaves out so many taps, in the padding, that it is as fast."""
    device = Device(num_threads=num_threads, isa=isa)

    def is_winograds(size: int, *dilations: int) -> bool:
        desc = convolution(128, 128, 3, size=size, dilations=dilations, start_padding=dilations, end_padding=dilations)
        return lines(device, desc)["algorithm"].startswith("Winograd's")

    gains = isa in GAINS_BY_WINOGRAD
    assert is_winograds(56, 2, 2) == is_winograds(56, 1, 2) == is_winograds(56, 2, 1) == is_winograds(64, 4, 4) == gains
    assert not any((is_winograds(28, 24, 24), is_winograds(28, 1, 27)))


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
    for distance, reads in ((2, True), (14, True), (15, False)):
        apart = (distance, distance)
        assert reads_windows(start_padding=apart, end_padding=apart, dilations=apart, group_count=32) == reads


def test_which_convolutions_repeat_channels(isa: str) -> None:
    def copied(inputs: int, outputs: int, groups: int) -> str | None:
        told = lines(Device(num_threads=1, isa=isa), convolution(inputs, outputs, 3, group_count=groups))
        return told["copy"].split(",")[0] + told["copy"].split(",")[1] if "copy" in told else None

    assert copied(32, 64, 32) == "32 channels of the input each 2 times"
    assert copied(3, 24, 3) == "3 channels of the input each 8 times"
    assert [copied(*sizes) for sizes in ((3, 27, 3), (1, 8, 1), (32, 32, 32), (32, 64, 16))] == [None] * 4


def test_which_convolutions_have_few_channels(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a kernel takes in less time than a product, in rows of outputs that fill most lanes."""
    has_kernel = "few_channels" in kernels(isa, monkeypatch)

    def are_few(channels: int, outputs: int, window: int, **changes: Any) -> bool:
        told = lines(Device(num_threads=1, isa=isa), convolution(channels, outputs, window, **changes))
        return told["algorithm"] == "direct, neighbouring outputs of a row as lanes"

    for few in (are_few(64, 1, 3), are_few(64, 6, 3), are_few(6, 2, 1, size=9), are_few(2, 3, 3)):
        assert few == has_kernel
    # In long rows of outputs, by large windows, some more are.
    more = (are_few(64, 9, 3, size=64), are_few(16, 12, 3, size=64))
    assert more == ((isa == "avx512_vnni"),) * 2
    others = (
        are_few(64, 9, 3, size=63),
        are_few(64, 13, 3, size=64),
        are_few(64, 9, 3),
        are_few(64, 6, 1),
        are_few(1, 3, 3),
        are_few(64, 3, 3, size=27),
    )
    assert not any(others)
    # Where windows lie in the padding for the most part, products leave that out.
    for distance, few in ((2, has_kernel), (12, False)):
        apart = {name: (distance, distance) for name in ("dilations", "start_padding", "end_padding")}
        assert are_few(64, 5, 3, **apart) == few


@pytest.mark.parametrize(
    ("channels", "sizes", "kernel"), [(4096, (1, 400), (1, 31)), (1536, (20, 64), (31, 31))], ids=str
)
def test_large_windows_of_many_channels_are_depthwise(
    isa: str, channels: int, sizes: tuple[int, int], kernel: tuple[int, int]
) -> None:
    strides = (sizes[0] * sizes[1] * channels, 1, sizes[1] * channels, channels)
    pixels = tensor("UINT8", 1, channels, *sizes, strides=strides)
    pad = tuple(size // 2 for size in kernel)
    desc = changed(
        convolution(64, 64, 3, group_count=channels, start_padding=pad, end_padding=pad),
        input_tensor=pixels,
        filter_tensor=tensor("INT8", channels, 1, *kernel),
        output_tensor=pixels,
    )
    assert lines(Device(num_threads=1, isa=isa), desc)["algorithm"].startswith("depthwise, channels as lanes")


def test_why_a_convolution_has_so_many_threads() -> None:
    device = Device(num_threads=2)
    small = lines(device, convolution(16, 16, 1))["threads"]
    assert re.fullmatch(
        r"at most 1 of 2 because the work is estimated at [\d.]+ us, and less than 6 us a thread do not pay", small
    )
    large = lines(device, convolution(256, 256, 3))["threads"]
    assert re.fullmatch(r"at most 2 of 2, for work estimated at \d{2,} us", large)
    assert lines(Device(num_threads=1), convolution(16, 16, 1))["threads"].startswith("at most 1 of 1, for work ")


def test_what_few_taps_write_counts_in_the_estimate() -> None:
    """300,000 outputs of one tap each take longer than their products."""
    desc = changed(
        convolution(64, 64, 1, group_count=64),
        input_tensor=tensor("UINT8", 1, 64, 60, 80),
        output_tensor=tensor("UINT8", 1, 64, 60, 80),
        filter_tensor=tensor("INT8", 64, 1, 1, 1),
    )
    assert lines(Device(num_threads=2), desc)["threads"].startswith("at most 2 of 2, for work ")
