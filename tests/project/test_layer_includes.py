"""Layers of the C++ include those below them alone, and folders of operators those that CONTRIBUTING.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CPP = Path(__file__).parents[2] / "cpp"
OPERATORS = CPP / "operators"

LAYERS_READ = {
    "runtime": set(),
    "kernels": {"runtime"},
    "operators": {"kernels", "runtime"},
    "graph": {"operators", "kernels", "runtime"},
    "bindings": {"graph", "operators", "kernels", "runtime"},
}
FOLDERS_READ = {"recurrence": {"matrix", "quantization", "strides"}, "strides": set[str]()}


def sources(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in {".cpp", ".h"}]


def folders_included(folder: Path, above: str) -> set[str]:
    """The folders of files that a file of the folder includes, such as "graph/..." or "operators/matrix/..."."""
    pattern = re.compile(rf'^\s*#\s*include\s+"{above}(\w+)/', re.MULTILINE)
    return {name for path in sources(folder) for name in pattern.findall(path.read_text(encoding="utf-8"))}


def test_every_layer_is_told_of() -> None:
    assert {path.name for path in CPP.iterdir() if path.is_dir()} == LAYERS_READ.keys()


@pytest.mark.parametrize("layer", LAYERS_READ)
def test_a_layer_includes_those_below_it(layer: str) -> None:
    included = folders_included(CPP / layer, "")
    assert layer in included
    assert included - {layer} - LAYERS_READ[layer] == set()


@pytest.mark.parametrize("folder", sorted(path.name for path in OPERATORS.iterdir() if path.is_dir()))
def test_a_folder_of_operators_includes_strides_at_most(folder: str) -> None:
    included = folders_included(OPERATORS / folder, "operators/")
    assert included - {folder} - FOLDERS_READ.get(folder, {"strides"}) == set()
