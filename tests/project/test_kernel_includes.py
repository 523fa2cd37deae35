"""Kernel files include what rule 3 of CONTRIBUTING.md lets them include: nothing else could be kept for another CPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CPP = Path(__file__).parents[2] / "cpp"
KERNELS = CPP / "kernels"
SOURCES = sorted(KERNELS.glob("*/*.cpp"))
HEADERS = sorted(path for path in KERNELS.glob("*/*.h") if not path.name.endswith(".inl.h"))
PIECES = sorted(KERNELS.rglob("*.inl.h"))

INTRINSICS = {"<immintrin.h>"}
NUMBERS = {"<cstddef>", "<cstdint>"}
# Of what these declare, kernel files use types, what the compiler computes, and functions of their own types alone.
COMPILE_TIME = {"<array>", "<type_traits>", "<utility>"}
# block_product reads the panels that dequantized_product lays out, softmax_rows exponentials in the unit of softmax.
FAMILIES_READ = {"block_product": {"dequantized_product"}, "softmax_rows": {"softmax"}}
# Folders of pieces for several families.
SHARED = {"codes", "lanes", "masked_floats"}


def name(path: Path) -> str:
    return str(path.relative_to(CPP))


def includes(text: str) -> set[str]:
    return {match[1].strip('"') for match in re.finditer(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', text, re.MULTILINE)}


def pieces_for(family: str) -> set[str]:
    return {name(path) for path in PIECES if path.parent == KERNELS or path.parent.name in {family, *SHARED}}


def headers_of(family: str) -> set[str]:
    return {f"kernels/{read}/{read}.h" for read in {family} | FAMILIES_READ.get(family, set())}


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_kernel_file_includes_its_family_alone(path: Path) -> None:
    family = path.parent.name
    allowed = NUMBERS | {"<cstring>"} | COMPILE_TIME | headers_of(family) | pieces_for(family)
    if path.stem != "scalar":
        allowed |= INTRINSICS
    assert includes(path.read_text()) - allowed == set()


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_what_is_shared_has_a_copy_in_the_unnamed_namespace(path: Path) -> None:
    before, inside = path.read_text().split("namespace {\n", 1)
    inside, behind = inside.split("\n}  // namespace\n", 1)
    assert {included for included in includes(before) if included.endswith(".inl.h")} == set()
    assert {included for included in includes(inside) if not included.endswith(".inl.h")} == set()
    assert includes(behind) == set()


@pytest.mark.parametrize("path", PIECES, ids=name)
def test_a_piece_includes_nothing_but_pieces(path: Path) -> None:
    """It is included within a namespace, where a header would declare its names anew."""
    assert includes(path.read_text()) - pieces_for(path.parent.name) == set()


@pytest.mark.parametrize("path", HEADERS, ids=name)
def test_a_family_header_includes_numbers_alone(path: Path) -> None:
    assert path.stem == path.parent.name
    assert includes(path.read_text()) - NUMBERS == set()
