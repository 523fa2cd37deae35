"""Options of several measurements: names with commas between them, the libraries among these, devices, repeats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Annotated, TypeAlias

import typer

import dmlcpu

__all__ = ["Repeats", "chosen", "chosen_device", "installed_versions"]

Repeats: TypeAlias = Annotated[
    int, typer.Option(help="timed repeats of at least 30 ms, of which the median counts", min=1)
]


def chosen_device(isa: str | None, threads: int) -> dmlcpu.Device:
    """Return a device, of no name the best; what cannot be had ends the command with a line."""
    try:
        return dmlcpu.Device(isa=isa or None, num_threads=threads)
    except ValueError as error:  # its own of instruction sets are of this kind
        raise typer.BadParameter(str(error)) from None


def chosen(option: str, text: str, known: Collection[str]) -> list[str]:
    """Return the names that an option has; what is none ends the command with a line that lists them.

    >>> chosen("--layouts", "NCHW,NHWC", ("NCHW", "NHWC")), chosen("--peers", "", ("torch",))
    (['NCHW', 'NHWC'], [])
    """
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"got {name!r}, expected some of {', '.join(known)}", param_hint=option)
    return names


def installed_versions(libraries: Iterable[str], version: Callable[[str], str]) -> dict[str, str]:
    """Return the versions of libraries that are installed, by name; of the others a line tells that they are left out.

    Args:
        libraries: Their names.
        version: Returns a library's version, and raises ImportError where it is not installed.
    """
    versions = {}
    for name in libraries:
        try:
            versions[name] = version(name)
        except ImportError as error:
            print(f"{name} is left out: {error}")
    return versions
