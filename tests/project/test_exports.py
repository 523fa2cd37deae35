"""What modules export is what other modules import, none of them in a circle."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "dmlcpu"
PUBLIC = ("dmlcpu", "dmlcpu.onnx.backend")  # for callers
OF_EACH_MODULE = ("RULES", "SCHEMAS", "command")  # taken in loops over the modules of a folder


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(folder: Path) -> dict[Path, ast.Module]:
    """The files of a folder that name the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}
    return {path: ast.parse(text) for path, text in texts.items() if path.is_relative_to(PACKAGE) or "dmlcpu" in text}


@functools.cache
def modules() -> dict[str, ast.Module]:
    return {name_of(path): tree for path, tree in parsed(PACKAGE).items()}


@functools.cache
def exported(tree: ast.Module) -> set[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    return set()


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Modules of the package and the names that are taken from them, also as attributes of an imported module."""
    named, attributes = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                attributes.append((node.value.id, node.attr))
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if submodule in modules():
                    named[alias.asname or alias.name] = submodule
                elif alias.name != "_core":
                    yield node.module, alias.name
        elif isinstance(node, ast.Import):
            named.update({alias.asname: alias.name for alias in node.names if alias.asname and alias.name in modules()})
    yield from ((named[module], name) for module, name in attributes if module in named)


@functools.cache
def imported_by(name: str) -> set[tuple[str, str]]:
    return {*imported(modules()[name])}


def test_what_is_imported_is_exported() -> None:
    taken = {(name, *each) for name in modules() for each in imported_by(name)}
    assert len(taken) > 1000
    hidden = [(user, module, name) for user, module, name in sorted(taken) if name not in exported(modules()[module])]
    assert hidden == []


def test_what_is_exported_is_imported() -> None:
    """By the package, or by a test, a measurement or an example."""
    others = [tree for folder in ("tests", "bench", "examples") for tree in parsed(ROOT / folder).values()]
    taken = {each for name in modules() for each in imported_by(name)}
    taken |= {each for tree in others for each in imported(tree)}
    unused = [
        (module, name)
        for module, tree in modules().items()
        for name in sorted(exported(tree))
        if (module, name) not in taken and module not in PUBLIC and name not in OF_EACH_MODULE
    ]
    assert unused == []


def run_time_imports(node: ast.AST) -> Iterator[str]:
    """Modules of the package that are imported when it runs, at once or in a function.

    Types alone do not count, nor does the package, which is there before its modules are: they may name it in types.
    """
    if isinstance(node, ast.expr) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        return
    if isinstance(node, ast.ImportFrom) and node.module in modules():
        for alias in node.names:
            submodule = f"{node.module}.{alias.name}"
            if alias.name != "_core":
                yield submodule if submodule in modules() else node.module
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules() and alias.name != PACKAGE.name)
    for child in ast.iter_child_nodes(node):
        yield from run_time_imports(child)


def test_no_modules_import_each_other() -> None:
    order = TopologicalSorter({name: set(run_time_imports(tree)) for name, tree in modules().items()})
    assert len([*order.static_order()]) == len(modules())  # a CycleError tells the modules of a circle
