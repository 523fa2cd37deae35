"""Every native operator has a test of its own, beside those of the rules that emit it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = TESTS.parent / "cpp" / "operators" / "operator_table.h"


def test_every_operator_of_the_table_is_named_in_a_test() -> None:
    """In quotes: a name within another one's does not count."""
    operators = re.findall(r'^    \{"(\w+)",', TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(operators) > 50
    folders = ("operators", "graph_operators")
    tested = {
        name
        for folder in folders
        for path in (TESTS / folder).glob("test_*.py")
        for name in re.findall(r'"([A-Z_]+)"', path.read_text(encoding="utf-8"))
    }
    assert sorted(set(operators) - tested) == []
