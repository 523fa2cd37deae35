"""What ``dmlcpu.onnx`` is made of imports at run time only what stands before it, so that it can be read in that order.

Imports for types alone (``if TYPE_CHECKING``) do not count; those within functions do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmlcpu.onnx

PACKAGE = Path(__file__).parents[2] / "python" / "dmlcpu" / "onnx"
# Folders and modules: each imports those before it, and within a folder its own modules.
ORDER = (
    "refusals",
    "missing_package",
    "type_names",
    "parameters",
    "values",
    "models",
    "coded_weights",
    "use_counts",
    "constants",
    "foreign",
    "native_partition",
    "lowering",
    "rules",
    "float_convolutions",
    "wide_models",
    "node_lowering",
    "planning",
    "input_shapes",
    "feeds",
    "options",
    "session_arguments",
    "session",
    "backend",
)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(node: ast.AST) -> Iterator[str]:
    """The folders and modules of ``dmlcpu.onnx`` that are imported at run time."""
    names = []
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    yield from (name.split(".")[2] for name in names if name.startswith("dmlcpu.onnx."))
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from imported(other)
        else:
            yield from imported(child)


def imports() -> dict[str, set[str]]:
    """By folder or module, what it imports of the others."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        part = part_of(path)
        found.setdefault(part, set()).update(imported(ast.parse(path.read_text(encoding="utf-8"))))
    return {part: others - {part} for part, others in found.items()}


IMPORTS = imports()


def test_all_have_a_place() -> None:
    assert sorted(ORDER) == sorted(IMPORTS.keys() - {"__init__"})
    assert IMPORTS["__init__"] == set()
    assert len(IMPORTS["planning"]) > 5


@pytest.mark.parametrize("part", ORDER)
def test_what_is_imported_stands_before(part: str) -> None:
    assert IMPORTS[part] - set(ORDER[: ORDER.index(part)]) == set()


def test_the_package_tells_the_same_order() -> None:
    told = re.findall(r"``(\w+)``", dmlcpu.onnx.__doc__ or "")
    assert told == list(ORDER)
