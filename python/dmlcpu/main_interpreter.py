"""The main interpreter is the only one that can import the package; the package imports this module first.

The native module's bindings would wait for a lock that the importing interpreter holds itself, for ever.
"""

from __future__ import annotations

import _thread
from importlib import import_module

__all__: list[str] = []


def _is_main_interpreter() -> bool:
    if (known := getattr(_thread, "_is_main_interpreter", None)) is not None:  # of Python 3.12 and later; costs nothing
        return bool(known())
    try:
        interpreters = import_module("_xxsubinterpreters")
    except ModuleNotFoundError:  # another Python, which may have none but this
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


if not _is_main_interpreter():
    raise ImportError(
        "dmlcpu cannot be imported in a subinterpreter: import it in the main one, or in a process of its own "
        "(mod_wsgi: WSGIApplicationGroup %{GLOBAL})",
        name="dmlcpu",
    )
