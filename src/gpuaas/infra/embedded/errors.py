"""The one failure of the embedded servers: a sentence for the person who started them."""

from __future__ import annotations


class EmbeddedError(Exception):
    """Why an embedded server cannot run; the text is one line and says what to do where we know it."""
