"""What this process has in memory, where that can be measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

__all__ = ["IS_SANITIZED", "measures_memory", "resident_bytes"]

IS_SANITIZED: Final = "san.so" in os.environ.get("LD_PRELOAD", "")
STATM: Final = Path("/proc/self/statm")

measures_memory = pytest.mark.skipif(
    not STATM.exists() or IS_SANITIZED, reason="read from /proc; sanitizers keep freed memory for a while"
)


def resident_bytes() -> int:
    """The bytes that lie in physical memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
