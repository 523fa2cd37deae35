"""Tables of the documentation that say what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import dmlcpu
from dmlcpu.onnx.rules import RULES

DOCS = Path(__file__).parents[1] / "docs"
GRAPHS, GUIDE = DOCS / "graphs.md", DOCS / "guide.md"


def test_the_operators_of_models_are_listed_with_the_files_of_their_rules() -> None:
    section = GRAPHS.read_text(encoding="utf-8").split("### Operators with rules")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    listed = {(name, file) for file, names in rows for name in re.sub(r" \(.*?\)", "", names).split(", ")}
    of_rules = {
        (f"{domain}.{operator}" if domain else operator, rule.__module__.rpartition(".")[2])
        for (domain, operator), rule in RULES.items()
    }
    assert listed == of_rules


def test_names_of_onnxruntime_are_here_or_not_as_the_guide_says() -> None:
    table = GUIDE.read_text(encoding="utf-8").split("| onnxruntime's name | here |")[1].split("\n\n")[0]
    rows = [re.findall(r"`([\w.]+)`", row) for row in table.splitlines() if "`" in row]
    places = [dmlcpu, dmlcpu.InferenceSession, dmlcpu.SessionOptions, dmlcpu.RunOptions]
    *present, absent = rows
    assert len(present) == 5
    for name in (name for row in present for name in row if name != "execution_order"):
        assert any(hasattr(place, name) for place in places), name
    for name in absent[: absent.index("session.profile")]:
        assert not any(hasattr(place, name) for place in places), name
