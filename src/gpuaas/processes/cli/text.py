"""Text from outside, made safe to print: what a terminal would act on is written out instead."""

import re

# C0 and C1 controls (escape sequences begin with one), and what turns the direction of text around.
_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    return _ACTIVE.sub(
        lambda found: f"\\u{ord(found[0]):04x}" if ord(found[0]) > 0xFF else f"\\x{ord(found[0]):02x}", text
    )


def clean_json(text: str) -> str:
    """JSON with the same values in which nothing acts on a terminal; its own line breaks stay."""
    return _ACTIVE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
