"""What this build and this machine can do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from dmlcpu import _core
from dmlcpu.device import Device, available_isas

__all__ = ["Info", "info", "installed_version"]


def installed_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import version  # here: it imports email, zipfile and more

    return version("dmlcpu")


@dataclass(frozen=True, slots=True, repr=False)
class Info:
    """What ``dmlcpu.info()`` found; ``print`` shows it as a table.

    Attributes:
        version: Of dmlcpu.
        isa: The instruction set of a default device.
        isa_reason: Why this one.
        num_threads: The threads of a default device.
        unavailable_isas: The other instruction sets, each with the reason why it cannot run here.
        kernels: For each kernel family that the instruction set has, the one whose kernel runs.
        cache_sizes: Bytes of a core's data caches, levels 1 to 3.

    >>> info().isa not in info().unavailable_isas
    True
    """

    version: str
    isa: str
    isa_reason: str
    num_threads: int
    unavailable_isas: Mapping[str, str] = field(hash=False)
    kernels: Mapping[str, str] = field(hash=False)
    cache_sizes: tuple[int, int, int]

    def __repr__(self) -> str:
        """Return one property a line."""
        kernels = ", ".join(f"{family} {isa}" for family, isa in self.kernels.items())
        caches = ", ".join(f"{size // 1024} KiB" for size in self.cache_sizes)
        lines = [
            f"dmlcpu       {self.version}",
            f"isa          {self.isa} ({self.isa_reason})",
            f"num_threads  {self.num_threads}",
            f"kernels      {kernels}",
            f"caches       {caches}",
        ]
        lines += [f"unavailable  {isa}: {reason}" for isa, reason in self.unavailable_isas.items()]
        return "\n".join(lines)


def info() -> Info:
    """Return what a default device of this process would use, and why.

    >>> info().isa in available_isas()
    True
    """
    isa, num_threads = available_isas()[-1], _core.usable_processor_count()
    reason = "DMLCPU_ISA" if os.environ.get("DMLCPU_ISA") else "the best that this machine can run"
    try:
        device = Device()
        isa, num_threads = device.isa, device.num_threads
    except ValueError as error:  # a mistake in the environment, which is when one asks
        reason = f"but Device() raises {type(error).__name__}: {error}"
    reasons = {name: _core.unavailable_reason(name) for name in _core.known_isas()}
    return Info(
        version=installed_version(),
        isa=isa,
        isa_reason=reason,
        num_threads=num_threads,
        unavailable_isas={name: why for name, why in reasons.items() if why},
        kernels=_core.kernel_origins(isa),
        cache_sizes=_core.cache_sizes(),
    )
