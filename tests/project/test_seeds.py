"""The numbers that tests draw follow from the one seed that a failure prints."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
# Of digits alone, or of nothing; scripts in strings count.
OWN_SEED = re.compile(r"default_rng\([\d\s,()]*\)")


def test_no_test_has_a_seed_of_its_own() -> None:
    texts = {path.relative_to(TESTS): path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    assert sum("default_rng(" in text for text in texts.values()) > 30
    assert {str(path): found for path, text in texts.items() if (found := OWN_SEED.findall(text))} == {}
