"""What is said of nodes that are not computed here, or not beforehand, or that another runtime refuses."""

from __future__ import annotations

from dmlcpu.errors import BindingError

__all__ = ["NotFolded", "NotNative", "RefusedRunError"]


class NotNative(Exception):  # not an error: another runtime takes the node
    """No kernel does what a node asks for; the message tells what."""


class NotFolded(NotNative):
    """Constants are not computed beforehand, though there is nothing wrong with them: each run may compute them."""


class RefusedRunError(BindingError):
    """Another runtime refuses a run. Its words seldom tell whether it is for values or for lengths that do not fit.

    A session raises it as a BindingError, with what it knows of lengths.
    """
