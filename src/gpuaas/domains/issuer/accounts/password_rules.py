"""Which passwords are taken: length counts, composition does not; what everybody guesses first is refused."""

import secrets
import unicodedata
from itertools import pairwise

MIN_LENGTH = 10
MAX_LENGTH = 200
_TEMPORARY_GROUPS = 4
_TEMPORARY_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
# What guessers try first among those long enough; digits and signs around a word do not save it.
_COMMON = frozenset(
    word
    for line in (
        "password passwort passphrase passw administrator administration changeme changethis changemenow letmein",
        "letmeinplease welcome welcomeback iloveyou sunshine princess football baseball basketball superman batman",
        "trustno qwertyuiop qwertzuiop qwerty asdfghjkl zxcvbnm qazwsxedc qazwsx onetwothree abcdefghij abcdefghijk",
        "abcdefg monkey dragon shadow master michael jennifer computer internet secret secretpassword mypassword",
        "thisisapassword correcthorsebatterystaple whatever starwars pokemon minecraft summer winter spring autumn",
        "january december test testtest testing default guest root toor admin adminadmin user login gpuaas nvidia",
        "kubernetes openai",
    )
    for word in line.split()
)
_SWAPS = str.maketrans("0134578@$!", "oieastbasi")


def normal(password: str) -> str:
    """The same password typed on another keyboard is the same: NFKC, as NIST SP 800-63B has it."""
    return unicodedata.normalize("NFKC", password)


def problem(password: str, email: str, name: str) -> str | None:
    """Why a password is refused, or None."""
    if len(password) < MIN_LENGTH:
        return f"A password has at least {MIN_LENGTH} characters. Several words in a row are easy to keep in mind."
    if len(password) > MAX_LENGTH:
        return f"A password has at most {MAX_LENGTH} characters."
    folded = normal(password).casefold()
    if len(set(folded)) < 4 or _is_run(folded):  # fewer different characters is a pattern
        return "This password is a simple pattern. Choose another."
    if {_letters(folded), _letters(_stripped(folded).translate(_SWAPS))} & _COMMON:
        return "This password is one that is guessed first. Choose another."
    local = email.partition("@")[0].casefold()
    own = len(local) > 2 and _letters(folded) == _letters(local)  # a shorter name is in too many words
    if own or folded in (email.casefold(), name.casefold()):
        return "The password is your address or name. Choose another."
    return None


def _stripped(text: str) -> str:
    """Without the digits and signs around it; those inside may stand for letters."""
    inside = [at for at, character in enumerate(text) if character.isalpha()]
    return text[inside[0] : inside[-1] + 1] if inside else ""


def _letters(text: str) -> str:
    return "".join(character for character in text if character.isalpha())


def _is_run(text: str) -> bool:
    """1234567890, abcdefghij, and the same backwards."""
    steps = {ord(after) - ord(before) for before, after in pairwise(text)}
    return steps in ({1}, {-1}) or text in ("1234567890", "0987654321")


def temporary() -> str:
    """Readable over the telephone, about 80 bits, good for one login."""
    groups = ("".join(secrets.choice(_TEMPORARY_ALPHABET) for _ in range(4)) for _ in range(_TEMPORARY_GROUPS))
    return "-".join(groups)


def normal_email(email: str) -> str:
    return email.strip().lower()
