"""oneDNN through a small driver in C++, on NHWC tensors, with its filter reordered once into the layout it prefers."""

from __future__ import annotations

import ctypes
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench import native
from bench.convolution_case import ConvolutionCase
from bench.operands import PreparedCall, in_layout

__all__ = ["prepare", "version"]

# oneDNN's name of each of our instruction sets, the most that it may use.
_ISA_LIMITS = {
    "avx2": "AVX2",
    "avx_vnni": "AVX2_VNNI",
    "avx512_vnni": "AVX512_CORE_VNNI",
    "amx_int8": "AVX512_CORE_AMX",
}


def version() -> str:
    """Return oneDNN's version. Raises ImportError where its wheel is not installed."""
    number = _library().onednn_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


@cache
def _library() -> ctypes.CDLL:
    prefix = Path(sysconfig.get_path("data"))
    if not (prefix / "include" / "dnnl.hpp").exists():
        raise ImportError("oneDNN is not installed: pip install onednn-devel-cpu-gomp")
    library = native.load("onednn_convolution", {"ONEDNN_PREFIX": str(prefix)})
    library.onednn_convolution_create.restype = ctypes.c_void_p
    library.onednn_convolution_create.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3, *[ctypes.c_void_p] * 4]
    library.onednn_convolution_run.argtypes = [ctypes.c_void_p] * 3
    library.onednn_convolution_error.restype = ctypes.c_char_p
    return library


@cache
def _configure(isa: str, num_threads: int) -> None:
    if not _library().onednn_configure(isa.encode(), num_threads):
        raise RuntimeError(f"oneDNN does not hold to {isa}: it has run before")


def prepare(case: ConvolutionCase, num_threads: int, isa: str) -> PreparedCall:
    """Create the primitive, on at most the instruction set and the threads of the first call in this process.

    Raises:
        RuntimeError: oneDNN has no implementation.
    """
    _configure(_ISA_LIMITS.get(isa, "DEFAULT"), num_threads)
    library = _library()
    shape = case.shape
    sizes = np.array(
        (
            *(shape.batch, shape.channels, *shape.size, shape.filters, *shape.kernel),
            *(*shape.strides, *shape.padding, *shape.dilations, shape.groups, *shape.output_size),
        ),
        np.int64,
    )
    # oneDNN adds the bias after scaling, in float32.
    scales = np.array([case.input_scale, case.output_scale], np.float32)
    bias = (case.bias * (case.input_scale * case.filter_scale)).astype(np.float32)
    x, output = in_layout(case.input, "NHWC"), case.empty_output("NHWC")
    signed = int(case.input_type == np.int8)
    handle = library.onednn_convolution_create(
        _address(sizes),
        signed,
        case.input_zero_point,
        case.output_zero_point,
        _address(scales),
        _address(case.filter),
        _address(case.filter_scale),
        _address(bias),
    )
    if not handle:
        raise RuntimeError(f"oneDNN: {library.onednn_convolution_error().decode()}")
    arguments = (handle, _address(x), _address(output))

    def run() -> object:
        return library.onednn_convolution_run(*arguments), x

    run()
    return PreparedCall(run, output)


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
