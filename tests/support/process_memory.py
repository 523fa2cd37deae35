"""What this process has in memory, where that can be measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

__all__ = ["IMPORTED_BY_SCRIPTS", "IS_SANITIZED", "address_space_bytes", "measures_memory", "resident_bytes"]

# With which a script of another process begins to import this module.
IMPORTED_BY_SCRIPTS: Final = f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"

IS_SANITIZED: Final = "san.so" in os.environ.get("LD_PRELOAD", "")
STATM: Final = Path("/proc/self/statm")

measures_memory = pytest.mark.skipif(
    not STATM.exists() or IS_SANITIZED, reason="read from /proc; sanitizers keep freed memory for a while"
)


def resident_bytes() -> int:
    """The bytes that lie in physical memory."""
    return _bytes_told(1)


def address_space_bytes() -> int:
    """The bytes that have addresses, of which there may be a limit."""
    return _bytes_told(0)


def _bytes_told(place: int) -> int:
    return int(STATM.read_text().split()[place]) * os.sysconf("SC_PAGE_SIZE")
