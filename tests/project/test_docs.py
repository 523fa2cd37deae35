"""Tables of the documentation that say what the code has."""

from __future__ import annotations

import doctest
import inspect
import re
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlcpu
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.onnx import model_values
from dmlcpu.onnx.absent_names import INSTEAD, OF_DIRECTML
from dmlcpu.onnx.rules import RULES
from dmlcpu.schema import FieldKind
from onnx_models import Builder, assert_like_onnxruntime, coded, floats

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ONNX_OPERATORS, GUIDE = DOCS / "onnx_operators.md", DOCS / "guide.md"


def test_the_operators_of_models_are_listed_with_the_files_of_their_rules() -> None:
    section = ONNX_OPERATORS.read_text(encoding="utf-8").split("## Operators with rules")[1]
    rows = re.findall(r"^\| `([\w/]+)` \| (.*) \|$", section, re.MULTILINE)
    listed = {(name, file) for file, names in rows for name in re.sub(r" \(.*?\)", "", names).split(", ")}
    of_rules = {
        (
            f"{domain}.{operator}" if domain else operator,
            rule.__module__.removeprefix("dmlcpu.onnx.rules.").replace(".", "/"),
        )
        for (domain, operator), rule in RULES.items()
    }
    assert listed == of_rules


def test_names_of_onnxruntime_are_here_or_not_as_the_guide_says() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    present = re.findall(r"`([\w.]+)`", text.split("| onnxruntime's name | here |")[1].split("\n\n")[0])
    places = [dmlcpu, dmlcpu.InferenceSession, dmlcpu.SessionOptions, dmlcpu.RunOptions]
    assert len(present) > 20
    for name in present:
        assert name == "execution_order" or any(hasattr(place, name) for place in places), name
    table = text.split("| not here | instead |\n| --- | --- |\n")[1].split("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    assert {name: place for names, place in rows for name in re.findall(r"`(\w+)`", names)} == INSTEAD
    for name in INSTEAD:
        assert not any(hasattr(place, name) for place in places), name


def test_names_of_directml_are_what_the_guide_says() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    table = text.split("| DirectML's object | here |\n| --- | --- |\n")[1].split("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    assert {name: place for names, place in rows for name in re.findall(r"`(\w+)`", names)} == OF_DIRECTML
    for name, place in OF_DIRECTML.items():
        with pytest.raises(AttributeError, match=rf"^module 'dmlcpu' has no attribute '{name}'; DirectML's is "):
            getattr(dmlcpu, name)
        for expression in re.findall(r"`(\w+)", place):
            owners = (dmlcpu, dmlcpu.CompiledOperator)
            assert expression in ("device", "compiled") or any(hasattr(owner, expression) for owner in owners)


def test_the_rule_that_is_shown_is_one(monkeypatch: pytest.MonkeyPatch, random_numbers: np.random.Generator) -> None:
    """With the test that is shown beside it."""
    rule, test = re.findall(r"```python\n(.*?)```", (DOCS / "onnx.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "hard_swish"}
    exec(rule, names)
    assert names["RULES"].keys() <= RULES.keys()
    monkeypatch.setattr(model_values, "RULES", {**RULES, **names["RULES"]})
    parts = {"Builder": Builder, "assert_like_onnxruntime": assert_like_onnxruntime, "coded": coded, "floats": floats}
    names = {"np": np, **parts}
    exec(test, names)
    names["test_hard_swish"](random_numbers)


def test_the_fields_of_descs_are_those_of_the_tables() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    listed = text.split("| desc | inputs | inputs that may be None | outputs | others |\n")[1].split("\n\n")[0]
    told = {}
    for row in listed.splitlines()[1:]:
        desc, *groups = ([*re.findall(r"`([^`]+)`", cell)] for cell in row.split("|")[1:-1])
        told[getattr(dmlcpu, desc[0]).operator_type] = groups
    arrays = (FieldKind.INPUT_ARRAY,)  # whose entries are told
    known = {
        operator: [
            [field.name for field in schema.tensors if field not in schema.outputs and not field.history[0].optional],
            [field.name for field in schema.tensors if field not in schema.outputs and field.history[0].optional],
            [field.name for field in schema.outputs],
            [field.name for field in schema.fields if not field.history and field.kind not in arrays],
        ]
        for operator, schema in OPERATORS.items()
    }
    assert told == known


def test_algorithms_of_convolutions_are_told_of() -> None:
    source = (ROOT / "cpp" / "operators" / "convolution" / "convolution_choice.cpp").read_text(encoding="utf-8")
    table = source.split("kAlgorithms[] = {")[1].split("};")[0]
    made = {*re.findall(r"make_(\w+)", table)}
    text = (DOCS / "convolution.md").read_text(encoding="utf-8").split("Convolutions are written")[0]
    assert {*re.findall(r"`(\w+_convolution)`", text)} == made
    counts = {9: "nine", 10: "ten", 11: "eleven"}
    assert f" {counts[len(made)]} algorithms" in text


def test_folders_of_the_native_sources_are_told_of() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`cpp/operators/.*?) \|", text, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(?:cpp/operators/)?(\w+)`", row)}
    folders = {folder.name for folder in (ROOT / "cpp" / "operators").iterdir() if folder.is_dir()}
    assert folders - told == set()


def test_families_of_kernels_are_told_of() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("| family | computes |\n")[1].split("\n\n")[0]
    told = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    families = {header.stem for header in ROOT.glob("cpp/kernels/*/*.h") if header.stem == header.parent.name}
    assert len(told) == len(set(told))
    assert set(told) == families


def test_lines_keep_to_120_columns() -> None:
    """Those of tables, which cannot be broken, do not."""
    texts = [text for folder in (".", "docs", "bench/shapes", "examples/*") for text in ROOT.glob(f"{folder}/*.md")]
    assert len(texts) > 5
    lines = {(text.name, line) for text in texts for line in text.read_text(encoding="utf-8").splitlines()}
    assert [(name, line) for name, line in sorted(lines) if len(line) > 120 and not line.startswith("|")] == []


def test_no_figure_is_still_to_come() -> None:
    for text in (*ROOT.glob("*.md"), *DOCS.glob("*.md")):
        assert re.findall(r"\b[A-Z]+_(?:MS|US|NS)\b", text.read_text(encoding="utf-8")) == [], text.name


def test_every_public_name_is_in_the_readme_or_the_guide() -> None:
    """In code, where a word is a name."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", GUIDE)]
    code = re.findall(r"```.*?```|`[^`]+`", "\n".join(texts), re.DOTALL)
    named = {name for piece in code for name in re.findall(r"\w+", piece)}
    methods = {
        name
        for kind in (dmlcpu.Device, dmlcpu.GraphBuilder, dmlcpu.CompiledOperator)
        for name in vars(kind)
        if not name.startswith("_")
    }
    assert methods >= {"create_operator", "add_reshape", "dispatch"}
    assert sorted((methods | set(dmlcpu.__all__)) - named) == []


def test_docstrings_of_public_names_have_an_example() -> None:
    """But for enumerations, whose members tell all, and errors. The tests run the examples."""
    others = Enum, BaseException
    names = [name for name in dmlcpu.__all__ if name != "__version__"]
    public = {name: getattr(dmlcpu, name) for name in names}
    told = [name for name, value in public.items() if not (isinstance(value, type) and issubclass(value, others))]
    assert len(told) > 40
    assert [name for name in told if ">>> " not in (inspect.getdoc(public[name]) or "")] == []


def test_examples_of_docstrings_need_public_names_alone() -> None:
    """They run where dmlcpu, all of its names and numpy have been imported, and import no module of the package."""
    names = {name: getattr(dmlcpu, name) for name in dmlcpu.__all__}
    known = {**names, "dmlcpu": dmlcpu, "np": np}
    objects = [(name, inspect.unwrap(value)) for name, value in names.items() if callable(value)]
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
    examples = [test for name, value in objects for test in finder.find(value, name, module=False, globs=known)]
    assert sum(bool(test.examples) for test in examples) > 40
    for test in examples:
        assert re.findall(r"(?:from|import) dmlcpu\.\w+", test.docstring) == [], test.name
        assert runner.run(test).failed == 0, test.name


PATH = re.compile(r"(?:`|\(|\s|(?<!tests)/)((?:operators|graph|runtime)/\w[\w/]*)")


def test_files_that_documents_and_comments_name_are_there() -> None:
    """A path such as operators/strides/staging, its ending or a part behind it left out."""
    texts = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("cpp/**/*.h"), *ROOT.glob("cpp/**/*.cpp")]
    named = {(path, text.name) for text in texts for path in PATH.findall(text.read_text(encoding="utf-8"))}
    assert len(named) > 30
    sources = ROOT / "cpp", ROOT / "python" / "dmlcpu"
    missing = [(path, text) for path, text in named if not any(any(folder.glob(f"{path}*")) for folder in sources)]
    assert missing == []


def test_files_on_the_way_of_a_convolution_have_the_names_that_are_told() -> None:
    section = (DOCS / "onnx.md").read_text(encoding="utf-8").split("## One convolution\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\S+)` \| (.*?) \|", section, re.MULTILINE)
    assert len(rows) > 10
    for path, names in rows:
        text = (ROOT / path).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b(def|class|struct) {name}\b|\b{name}( ?[({{:=]|\.)", text), (path, name)


def test_links_between_documents_lead_to_files_and_headings() -> None:
    paths = (*ROOT.glob("*.md"), *DOCS.glob("*.md"))
    texts = {path: re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL) for path in paths}
    headings = {
        path: {_anchor(line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)} for path, text in texts.items()
    }
    links = [
        (path, link) for path, text in texts.items() for link in re.findall(r"\]\(([^)\s]+)\)", text) if ":" not in link
    ]
    assert len(links) > 20
    for path, link in links:
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), (path.name, link)
        assert not anchor or anchor in headings[target], (path.name, link)


def _anchor(heading: str) -> str:
    """The name that a heading gets where Markdown is shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
