"""Other libraries that run the same element-wise operators, each as far as it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.element_wise_case import ElementWiseCase, Layout, Operator
from bench.operands import PreparedCall

__all__ = ["ELEMENT_WISE_PEERS", "ElementWisePeer"]

_PACKED: tuple[Layout, ...] = ("contiguous", "per-axis", "7x7")
_LAST: tuple[Layout, ...] = ("NHWC", "3 channels")


@dataclass(frozen=True)
class ElementWisePeer:
    """A library by the name that ``--peers`` takes, and the layouts that it has of each operator."""

    name: str
    module: str
    layouts: Mapping[Operator, tuple[Layout, ...]]

    def version(self) -> str:
        """Return its version. Raises ImportError where it is not installed."""
        return str(import_module(self.name).__version__)

    def prepare(self, case: ElementWiseCase, num_threads: int) -> PreparedCall:
        """Make the operator ready to run; its output is seen as {N, C, H, W}."""
        module: Any = import_module(f"bench.peers.{self.module}")
        prepare: Callable[[ElementWiseCase, int], PreparedCall] = module.prepare
        return prepare(case, num_threads)


ELEMENT_WISE_PEERS = {
    peer.name: peer
    for peer in (
        ElementWisePeer(
            "onnxruntime",
            "onnxruntime_element_wise",
            {
                "quantize": (*_PACKED, *_LAST),
                "dequantize": (*_PACKED, *_LAST),
                "dynamic": (*_PACKED, *_LAST),
                "add": (*_PACKED, *_LAST, "0-stride"),
            },
        ),
        ElementWisePeer(
            "torch",
            "torch_element_wise",
            {
                "quantize": (*_PACKED, *_LAST),
                "dequantize": (*_PACKED, *_LAST),
                "dynamic": (),
                "add": (*_PACKED, *_LAST),
            },
        ),
    )
}
