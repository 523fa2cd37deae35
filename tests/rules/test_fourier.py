"""DFT and STFT beside numpy's transforms in double precision, which onnxruntime's of odd lengths are far from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlcpu
from onnx_models import POINT, Builder, assert_like_onnxruntime, codes, floats, reasons_of, steps_of
from template_checks import assert_templates_follow_the_rules, assert_traced_like_lowered

Array = np.ndarray[Any, Any]
# Of the largest element: sums of floats one after the other, hundreds of them where a length is prime.
CLOSE = 2e-6


def parts_of(numbers: Array) -> Array:
    return np.stack([numbers.real, numbers.imag], -1)


def numbers_of(parts: Array) -> Array:
    wide = parts.astype(np.float64)
    return np.asarray(wide[..., 0] + 1j * wide[..., 1] if parts.shape[-1] == 2 else wide[..., 0])


def assert_close(model: bytes, x: Array, expected: Array) -> None:
    """On one thread and on two, in the same bits; all of it native."""
    options = dmlcpu.SessionOptions()
    results = []
    for options.intra_op_num_threads in (1, 2):
        session = dmlcpu.InferenceSession(model, options)
        assert {part.provider for part in session.partitions({"x": x.shape})} == {"dmlcpu"}
        results.append(session.run(None, {"x": x})[0])
    assert_traced_like_lowered(model, {"x": x.shape})
    assert np.array_equal(results[0], results[1])
    assert (results[0].dtype, results[0].shape) == (np.float32, expected.shape)
    assert np.abs(results[0] - expected).max() <= CLOSE * np.abs(expected).max()


def dft(shape: Any, axis: int | None = None, length: int | None = None, version: int = 20, **attributes: Any) -> bytes:
    builder = Builder(version)
    inputs: list[Any] = [builder.input("float32", shape)]
    inputs += ["" if length is None else np.int64(length)]
    if version < 20:
        attributes |= {} if axis is None else {"axis": axis}
    elif axis is not None:
        inputs += [np.int64(axis)]
    builder.output(builder.node("DFT", inputs, **attributes), "float32")
    return builder.build()


@pytest.mark.parametrize("version", [17, 20])
@pytest.mark.parametrize("axis", [1, 2, -2, -3, None])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
def test_axes(random_numbers: np.random.Generator, version: int, axis: int | None, parts: int, inverse: int) -> None:
    """Without an axis it is the second one, and since version 20 the last one of the signal."""
    x = floats(random_numbers, (2, 5, 12, 3, parts))
    meant = axis if axis is not None else 1 if version == 17 else -2
    transform = np.fft.ifft if inverse else np.fft.fft
    expected = transform(numbers_of(x), axis=meant + (meant < 0))
    assert_close(dft(x.shape, axis, version=version, inverse=inverse), x, parts_of(expected))


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9, 48, 127, 256, 257, 400, 480, 1024, 2000])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("behind", [(), (3,)], ids=str)
def test_lengths(random_numbers: np.random.Generator, length: int, parts: int, behind: Any) -> None:
    """By one matrix or two, of rows or of what an axis lies behind."""
    x = floats(random_numbers, (2, length, *behind, parts))
    expected = np.fft.fft(numbers_of(x), axis=1)
    assert_close(dft(x.shape, 1), x, parts_of(expected))
    if parts == 1:
        assert_close(dft(x.shape, 1, onesided=1), x, parts_of(expected[:, : length // 2 + 1]))
    assert_close(dft(x.shape, 1, inverse=1), x, parts_of(np.fft.ifft(numbers_of(x), axis=1)))


@pytest.mark.parametrize("length", [1, 5, 8, 13, 300, 600])
def test_lengths_that_are_asked_for(random_numbers: np.random.Generator, length: int) -> None:
    """What is too long is cut, what is missing is 0."""
    x = floats(random_numbers, (2, 8, 3, 1))
    expected = np.fft.fft(numbers_of(x), length, axis=1)
    assert_close(dft(x.shape, 1, length), x, parts_of(expected))
    assert_close(dft(x.shape, 1, length, onesided=1), x, parts_of(expected[:, : length // 2 + 1]))


@pytest.mark.parametrize("length", [2, 3, 16, 17, 100, 255, 512])
def test_real_signals_of_one_side(random_numbers: np.random.Generator, length: int) -> None:
    """Whose first and middle imaginary parts count for nothing."""
    x = floats(random_numbers, (3, length // 2 + 1, 2, 2))
    expected = np.fft.irfft(numbers_of(x), length, axis=1)[..., np.newaxis]
    assert_close(dft(x.shape, 1, length, onesided=1, inverse=1), x, expected)


def test_a_length_that_follows_from_one_side(random_numbers: np.random.Generator) -> None:
    x = floats(random_numbers, (3, 9, 2))
    assert_like_onnxruntime(dft(x.shape, 1, onesided=1, inverse=1), {"x": x})


def spectral_layer(builder: Builder, x: str) -> str:
    """As Fourier neural operators have it: a few bins of images' spectra, and images of them again."""
    spectrum = builder.node("DFT", [x, "", np.int64(3)], onesided=1)
    spectrum = builder.node("DFT", [spectrum, "", np.int64(2)])
    few = builder.node("Slice", [spectrum, np.array([0, 1]), np.array([7, 5]), np.array([2, 3])])
    real, imaginary = (builder.node("Gather", [few, np.int64(part)], axis=-1) for part in (0, 1))
    scaled = (builder.node("Mul", [part, np.float32(2 + index)]) for index, part in enumerate((real, imaginary)))
    parts = [builder.node("Unsqueeze", [part, np.array([-1])]) for part in scaled]
    stacked = builder.node("Concat", parts, axis=-1)
    padded = builder.node("Pad", [stacked, np.array([0, 0, 0, 1, 0, 0, 0, 9, 4, 0])])
    back = builder.node("DFT", [padded, "", np.int64(2)], inverse=1)
    image: str = builder.node("DFT", [back, np.int64(16), np.int64(3)], onesided=1, inverse=1)
    return image


def expected_layer(x: Array) -> Array:
    spectrum = np.fft.fft(np.fft.rfft(numbers_of(x), axis=3), axis=2)
    few = np.zeros_like(spectrum)
    few[:, :, :7, 1:5] = spectrum[:, :, :7, 1:5].real * 2 + 3j * spectrum[:, :, :7, 1:5].imag
    return np.asarray(np.fft.irfft(np.fft.ifft(few, axis=2), 16, axis=3))[..., np.newaxis]


def test_spectral_layer(random_numbers: np.random.Generator) -> None:
    """Of what is not read nothing is computed: the products have so many results."""
    builder = Builder(20)
    builder.output(spectral_layer(builder, builder.input("float32", (2, 3, 16, 16, 1))), "float32")
    x = floats(random_numbers, (2, 3, 16, 16, 1))
    assert_close(builder.build(), x, expected_layer(x))
    [part] = dmlcpu.InferenceSession(builder.build()).partitions()
    assert [step.type for step in part.steps].count("FLOAT_PRODUCT") == 5  # real and imaginary parts of the second one


def test_spectra_of_codes(random_numbers: np.random.Generator) -> None:
    builder = Builder(20)
    x = builder.dequantized(builder.input("uint8", (2, 3, 16, 16, 1)), 0.02, POINT)
    builder.output(builder.quantized(spectral_layer(builder, x), 0.05, POINT), "uint8")
    assert_like_onnxruntime(builder.build(), {"x": codes(random_numbers, "uint8", (2, 3, 16, 16, 1))}, 1)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3), (1, 3, 2)], ids=str)
def test_several_axes(random_numbers: np.random.Generator, order: tuple[int, ...]) -> None:
    """One after the other, in any order; the parts are where it suits."""
    builder = Builder(20)
    spectrum = builder.input("float32", (2, 4, 6, 5, 1))
    for axis in order:
        spectrum = builder.node("DFT", [spectrum, "", np.int64(axis)])
    builder.output(spectrum, "float32")
    x = floats(random_numbers, (2, 4, 6, 5, 1))
    assert_close(builder.build(), x, parts_of(np.fft.fftn(numbers_of(x), axes=(1, 2, 3))))


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("first", [0, 3])
def test_every_other_bin(random_numbers: np.random.Generator, part: int, first: int) -> None:
    builder = Builder(20)
    spectrum = builder.node("DFT", [builder.input("float32", (3, 400, 2)), "", np.int64(1)])
    starts, ends, axes, steps = np.array([[first, part], [399, part + 1], [1, 2], [2, 1]])
    builder.output(builder.node("Slice", [spectrum, starts, ends, axes, steps]), "float32")
    x = floats(random_numbers, (3, 400, 2))
    expected = parts_of(np.fft.fft(numbers_of(x), axis=1))[:, first:399:2, part : part + 1]
    assert_close(builder.build(), x, expected)


def test_free_batches(random_numbers: np.random.Generator) -> None:
    for length in (16, 512):
        model = dft(("N", length, "rows", 1), 1, onesided=1)
        shapes = [{"x": (n, length, rows, 1)} for n, rows in ((1, 3), (2, 3), (5, 2))]
        assert_templates_follow_the_rules(model, shapes, 1)
        for shape in shapes:
            x = floats(random_numbers, shape["x"])
            assert_close(model, x, parts_of(np.fft.rfft(numbers_of(x), axis=1)))


def stft(shape: Any, step: int, length: int | None, window: Array | None, **attributes: Any) -> bytes:
    builder = Builder(17)
    inputs: list[Any] = [builder.input("float32", shape), np.int64(step), "" if window is None else window]
    inputs += [] if length is None else [np.int64(length)]
    builder.output(builder.node("STFT", inputs, **attributes), "float32")
    return builder.build()


def expected_windows(x: Array, step: int, window: Array) -> Array:
    signal = numbers_of(x if x.ndim == 3 else x[..., np.newaxis])
    starts = range(0, signal.shape[1] - window.size + 1, step)
    frames = np.stack([signal[:, start : start + window.size] for start in starts], 1)
    return parts_of(np.fft.fft(frames * window.astype(np.float64), axis=2))


@pytest.mark.parametrize(
    ("samples", "length", "step"),
    [
        (100, 16, 8),
        (100, 16, 5),
        (100, 16, 16),
        (64, 16, 20),
        (16, 16, 4),
        (20, 16, 1000),
        (16, 8, 1 << 40),
        (1700, 400, 160),
        (3000, 512, 128),
        (9, 1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("parts", [0, 1, 2])
def test_windows(random_numbers: np.random.Generator, samples: int, length: int, step: int, parts: int) -> None:
    x = floats(random_numbers, (2, samples, parts) if parts else (2, samples))
    window = random_numbers.uniform(0.1, 1, length).astype(np.float32)
    expected = expected_windows(x, step, window)
    assert_close(stft(x.shape, step, length, window, onesided=0), x, expected)
    assert_close(stft(x.shape, step, None, window), x, expected[:, :, : length // 2 + 1])
    ones = expected_windows(x, step, np.ones(length))
    assert_close(stft(x.shape, step, length, None), x, ones[:, :, : length // 2 + 1])


@pytest.mark.parametrize("operator", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_speech_front_end(random_numbers: np.random.Generator, operator: str, periodic: int) -> None:
    """A window and weights that are computed beforehand, and the energies of bands."""
    builder = Builder(17)
    window = builder.node(operator, [np.int64(256)], periodic=periodic)
    spectrum = builder.node("STFT", [builder.input("float32", (1, 2000)), np.int64(64), window])
    energies = builder.node("ReduceSumSquare", [spectrum], axes=[-1], keepdims=0)
    limits = [np.int64(20), np.int64(256), np.int64(16000), np.float32(40), np.float32(7600)]
    bands = builder.node("MatMul", [energies, builder.node("MelWeightMatrix", limits)])
    builder.output(builder.node("Log", [builder.node("Add", [bands, np.float32(1e-3)])]), "float32")
    assert_like_onnxruntime(builder.build(), {"x": floats(random_numbers, (1, 2000))})
    assert "STFT" not in steps_of(builder)


def test_signals_of_free_lengths(random_numbers: np.random.Generator) -> None:
    window = np.hanning(32).astype(np.float32)
    model = stft(("N", "samples"), 12, None, window)
    for shape in ((1, 100), (3, 100), (2, 77)):
        x = floats(random_numbers, shape)
        assert_close(model, x, expected_windows(x, 12, window)[:, :, :17])


@pytest.mark.parametrize(
    ("shape", "axis", "length", "attributes", "reason"),
    [
        ((2, 3, 16, 3), 2, None, {}, "numbers of 3 parts"),
        ((2, 9, 2), 1, 8, {"onesided": 1, "inverse": 1}, "a DFT of length 8 of 9 entries of 2 parts"),
        ((2, 3, 1), 1, 1 << 40, {}, "a Fourier transform of length 1099511627776, whose factors are too large"),
        ((1, 44101, 1), 1, None, {}, "a Fourier transform of length 44101, whose factors are too large"),
    ],
    ids=str,
)
def test_what_is_left_to_onnxruntime(shape: Any, axis: int, length: Any, attributes: Any, reason: str) -> None:
    builder = Builder(20)
    inputs = [builder.input("float32", shape), "" if length is None else np.int64(length), np.int64(axis)]
    builder.output(builder.node("DFT", inputs, **attributes), "float32")
    assert reason in reasons_of(builder)
