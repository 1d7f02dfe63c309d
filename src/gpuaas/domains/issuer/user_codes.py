"""The code a person reads off one screen and types on another: eight consonants, so that no word appears by accident
and no letter is mistaken for a digit (RFC 8628, 6.1). 20^8 codes, each good for minutes: guessing is hopeless at the
rate the auth lane allows."""

import re
import secrets

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
LENGTH = 8
_NOISE = re.compile(r"[\s\-–—._]+")
_CODE = re.compile(f"^[{ALPHABET}]{{{LENGTH}}}$")


def new() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def shown(code: str) -> str:
    """With a dash in the middle, as people read it."""
    return f"{code[:4]}-{code[4:]}"


def read(typed: str) -> str | None:
    """What was typed, without case, dashes and spaces; None when it cannot be a code."""
    code = _NOISE.sub("", typed[:40]).upper()
    return code if _CODE.fullmatch(code) else None
