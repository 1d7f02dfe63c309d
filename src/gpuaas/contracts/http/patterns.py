"""What the patterns of our texts ask for, in words: a person who is refused reads these, not a regular expression.

Every pattern that an operation's types use has its words here; a test lists them.

A pattern ends with `$(?!\\n)`: in Python `$` alone also matches before a last line feed."""

# One line of text for people: no control, bidi or line-separating characters, not blank, not padded.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
LINE = rf"^[^\s{_UNSEEN}]([^{_UNSEEN}]*[^\s{_UNSEEN}])?$(?!\n)"

_DASHED = "lower-case letters, digits and dashes, with a letter or digit at both ends"
_DOTTED = "two words of lower-case letters, digits and underscores, joined by a dot"
_VISIBLE = "visible ASCII characters without spaces"

WORDS: dict[str, str] = {
    LINE: "one line of text without spaces around it or characters that cannot be seen",
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$(?!\n)": _DASHED,
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$(?!\n)": _DASHED,
    r"^[a-z0-9][a-z0-9-]*$(?!\n)": "lower-case letters, digits and dashes, with a letter or digit first",
    r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$(?!\n)": "an email address",
    r"^[\x21-\x7e]+$(?!\n)": _VISIBLE,
    r"^[\x20-\x7e]+$(?!\n)": "visible ASCII characters and spaces",
    r"^https?://[\x21-\x7e]+$(?!\n)": "an http or https address",
    r"^(\*|[a-z][a-z0-9_]*)$(?!\n)": "an operation's id (such as project_create), or * for all",
    r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$(?!\n)": _DOTTED,
    r"^[a-z][a-z0-9_.]*$(?!\n)": "lower-case letters, digits, underscores and dots, with a letter first",
    r"^[a-z][a-z0-9_.-]*\Z": "lower-case letters, digits, underscores, dots and dashes, with a letter first",
    r"^[A-Z]{3}$(?!\n)": "a currency of three capital letters (such as USD)",
    r"^sha256:[0-9a-f]{64}$(?!\n)": "sha256: and 64 hexadecimal digits",
    r"^[A-Za-z0-9+/]+={0,2}$(?!\n)": "base64",
    r"^[A-Za-z0-9][A-Za-z0-9._+-]*$(?!\n)": "letters, digits, dots, dashes, plus signs and underscores (such as 1.4.2)",
    r"^[A-Za-z0-9][A-Za-z0-9 ._/-]*$(?!\n)": "letters, digits, spaces, dots, dashes, slashes and underscores",
    r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$(?!\n)": (
        "letters, digits, dots, dashes, slashes and underscores, with a letter or digit at both ends"
    ),
    r"^[A-Za-z0-9._/-]*$(?!\n)": "letters, digits, dots, dashes, slashes and underscores",
    r"^[A-Za-z0-9._/-]+(=[A-Za-z0-9._/-]*)?$(?!\n)": "a label's key, or key=value",
    r"^[A-Za-z0-9:.-]*$(?!\n)": "a host's name or address",
}
