"""What is said of nodes that are not computed here, or not beforehand."""

from __future__ import annotations

__all__ = ["NotFolded", "NotNative"]


class NotNative(Exception):  # not an error: another runtime takes the node
    """No kernel does what a node asks for; the message tells what."""


class NotFolded(NotNative):
    """Constants are not computed beforehand, though there is nothing wrong with them: each run may compute them."""
