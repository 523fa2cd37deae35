"""Whether sequences of a batch are as long as their tensor."""

from __future__ import annotations

from dmlcpu.graph.lengths import decided_by
from dmlcpu.onnx.constant_arrays import Array, Constant

__all__ = ["are_whole"]


def are_whole(lengths: Constant, steps: int, sequences: int) -> bool:
    """Return whether each of so many sequences has as many steps as all; lengths may follow from those of inputs."""
    return decided_by(_are_all, lengths.source, steps, sequences)


def _are_all(lengths: Array, steps: int, sequences: int) -> bool:
    return lengths.shape == (sequences,) and lengths.dtype.kind in "iu" and bool((lengths == steps).all())
