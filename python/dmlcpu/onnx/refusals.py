"""What is said of nodes that are not computed here, or not beforehand, or that another runtime refuses."""

from __future__ import annotations

from dmlcpu.errors import BindingError, InvalidModelError

__all__ = ["NotFitting", "NotFolded", "NotNative", "NotValid", "RefusedRunError", "UnfitLengthsError"]


class NotNative(Exception):  # not an error: another runtime takes the node
    """No kernel does what a node asks for; the message tells what."""


class NotFitting(NotNative):
    """Operands of a node have shapes that no runtime takes together; the message tells them."""


class NotValid(NotNative):
    """A node is not valid ONNX, whoever runs it; the message tells what is wrong."""


class NotFolded(NotNative):
    """Constants are not computed beforehand, though there is nothing wrong with them: each run may compute them."""


class RefusedRunError(BindingError):
    """Another runtime refuses a run. Its words seldom tell whether it is for values or for lengths that do not fit.

    A session raises it as a BindingError, with what it knows of lengths.
    """


class UnfitLengthsError(InvalidModelError):
    """Nodes do not take what they are given, and values have no part in it: the lengths have, or the nodes are wrong.

    A session raises it as a BindingError, with what is fed, if its model leaves lengths free, else as it is.
    """
