"""What ``dmlcpu.onnx`` is made of imports at run time only what stands before it, so that it can be read in that order.

So do the folders of its rules. Imports for types alone (``if TYPE_CHECKING``) do not count; those within functions do.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dmlcpu.onnx
from dmlcpu.onnx.rules import table

PACKAGE = Path(__file__).parents[2] / "python" / "dmlcpu" / "onnx"
# Folders and modules: each imports those before it, and within a folder its own modules.
ORDER = (
    "refusals",
    "missing_package",
    "absent_names",
    "type_names",
    "parameters",
    "constant_arrays",
    "values",
    "models",
    "coded_weights",
    "use_counts",
    "constants",
    "foreign",
    "native_partition",
    "lowering",
    "rules",
    "computed_once",
    "unrolling",
    "model_values",
    "planning",
    "input_shapes",
    "feeds",
    "options",
    "session_arguments",
    "session",
    "backend",
)


def package_of(folder: Path) -> str:
    return ".".join(("dmlcpu", *folder.relative_to(PACKAGE.parent).parts))


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(node: ast.AST, package: str) -> Iterator[str]:
    """The folders and modules of a package that are imported at run time."""
    if isinstance(node, ast.expr):
        return  # no import is within one
    names = []
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    within = f"{package}."
    yield from (name.removeprefix(within).split(".")[0] for name in names if name.startswith(within))
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from imported(other, package)
        else:
            yield from imported(child, package)


def part_of(path: Path, folder: Path) -> str:
    return path.relative_to(folder).parts[0].removesuffix(".py")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(folder: Path) -> dict[str, set[str]]:
    """By folder or module in a folder, what it imports of the others."""
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        found.setdefault(part_of(path, folder), set()).update(imported(parsed(path), package_of(folder)))
    return {part: others - {part} for part, others in found.items()}


RULES = PACKAGE / "rules"
PARTS_OF_RULES = sorted({part_of(path, RULES) for path in RULES.rglob("*.py")} - {"__init__", "table"})
FOLDERS_OF_RULES = [*dict.fromkeys(module.__name__.split(".")[-2] for module in table._MODULES)]


def test_all_have_a_place() -> None:
    found = imports(PACKAGE)
    assert sorted(ORDER) == sorted(found.keys() - {"__init__"})
    assert found["__init__"] == set()
    assert len(found["planning"]) > 5


@pytest.mark.parametrize("part", ORDER)
def test_what_is_imported_stands_before(part: str) -> None:
    assert imports(PACKAGE)[part] - set(ORDER[: ORDER.index(part)]) == set()


def test_the_package_tells_the_same_order() -> None:
    told = re.findall(r"``(\w+)``", dmlcpu.onnx.__doc__ or "")
    assert told == list(ORDER)


def test_all_folders_of_rules_have_a_place() -> None:
    folders = [path.name for path in RULES.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(folders) == sorted(FOLDERS_OF_RULES)
    assert len(imports(RULES)["attention"] & {*FOLDERS_OF_RULES}) > 3


@pytest.mark.parametrize("part", PARTS_OF_RULES)
def test_folders_of_rules_import_those_before_them(part: str) -> None:
    """Modules beside the folders import none of them."""
    before = FOLDERS_OF_RULES[: FOLDERS_OF_RULES.index(part)] if part in FOLDERS_OF_RULES else []
    assert imports(RULES)[part] & {*FOLDERS_OF_RULES} <= {*before}
