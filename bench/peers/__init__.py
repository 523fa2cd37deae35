"""Other libraries that run the same convolutions, each as far as it is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from bench.convolution_case import ConvolutionCase
from bench.operands import Layout, PreparedCall

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True)
class Peer:
    """A library by the name that ``--peers`` takes.

    Attributes:
        name: Its name, and that of its module in this package.
        layouts: The memory that its users give it.
        code_types: The types of input and filter that it has.
    """

    name: str
    layouts: tuple[Layout, ...]
    code_types: tuple[str, ...]

    def version(self) -> str:
        """Return its version. Raises ImportError, saying what to install, where it is not there."""
        version: Callable[[], str] = import_module(f"bench.peers.{self.name}").version
        return version()

    def prepare(self, case: ConvolutionCase, num_threads: int, isa: str) -> PreparedCall:
        """Make the convolution ready to run, its constants prepared as well as the library can."""
        prepare: Callable[[ConvolutionCase, int, str], PreparedCall] = import_module(f"bench.peers.{self.name}").prepare
        return prepare(case, num_threads, isa)


PEERS = {
    peer.name: peer
    for peer in (
        Peer("onnxruntime", ("NCHW",), ("u8s8", "s8s8", "u8u8")),
        Peer("openvino", ("NCHW",), ("u8s8", "s8s8")),
        Peer("onednn", ("NHWC",), ("u8s8", "s8s8")),
    )
}
