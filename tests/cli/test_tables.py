"""Tables: how wide they are, and what is wrapped on a terminal."""

from __future__ import annotations

import sys

import pytest

from dmlcpu.cli.tables import Column, print_table

NAME = "a_name_of_a_node_of_40_characters_in_all"
COLUMNS = [Column("node", words=True), Column("us"), Column("why", words=True, prose=True)]


def printed(capsys: pytest.CaptureFixture[str], reason: str) -> list[str]:
    print_table(COLUMNS, [(NAME, "1.5", reason)])
    return capsys.readouterr().out.splitlines()


def test_rows_may_end_early(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("a", "1"), ("b",)])
    assert capsys.readouterr().out.splitlines() == ["node  us  why", "a      1", "b", ""]


@pytest.mark.parametrize("words", [1, 1000])
def test_a_table_is_as_wide_as_what_it_holds(capsys: pytest.CaptureFixture[str], words: int) -> None:
    reason = " ".join(["because"] * words)
    assert printed(capsys, reason) == [f"node{' ' * 39}us  why", f"{NAME}  1.5  {reason}", ""]


@pytest.mark.parametrize("kind", ["dumb", "xterm"])
@pytest.mark.parametrize("height", [None, 24])
@pytest.mark.parametrize(("width", "lines"), [(80, 3), (30, 5)])
def test_a_terminal_wraps_prose_between_words(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    lines: int,
    height: int | None,
    kind: str,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", kind)
    monkeypatch.delenv("LINES", raising=False)
    if height is not None:
        monkeypatch.setenv("LINES", str(height))
    _, first, *rest, empty = printed(capsys, " ".join(["because"] * 10))
    assert first.startswith(f"{NAME}  1.5  because")
    assert {word for line in rest for word in line.split()} == {"because"}
    assert 1 + len(rest) == lines
    assert max(map(len, (first, *rest))) <= max(width, len(f"{NAME}  1.5  ") + 20)
    assert empty == ""
