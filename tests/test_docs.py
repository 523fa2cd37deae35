"""Tables of the documentation that say what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from dmlcpu.onnx.rules import RULES

GRAPHS = Path(__file__).parents[1] / "docs" / "graphs.md"


def test_the_operators_of_models_are_listed_with_the_files_of_their_rules() -> None:
    section = GRAPHS.read_text(encoding="utf-8").split("### Operators with rules")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    listed = {(name, file) for file, names in rows for name in re.sub(r" \(.*?\)", "", names).split(", ")}
    of_rules = {
        (f"{domain}.{operator}" if domain else operator, rule.__module__.rpartition(".")[2])
        for (domain, operator), rule in RULES.items()
    }
    assert listed == of_rules
