"""The instruction sets, worst to best, and what each needs of the CPU, as Linux names it."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CPU_FLAGS", "ISAS"]

AVX2_FLAGS = {"avx2", "fma", "f16c"}
AVX512_FLAGS = AVX2_FLAGS | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}
CPU_FLAGS: Mapping[str, set[str]] = {
    "scalar": set(),
    "avx2": AVX2_FLAGS,
    "avx_vnni": AVX2_FLAGS | {"avx_vnni"},
    "avx512_vnni": AVX512_FLAGS,
    "amx_int8": AVX512_FLAGS | {"amx_tile", "amx_int8"},
}
ISAS = tuple(CPU_FLAGS)
