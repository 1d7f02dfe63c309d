"""A browser as it came, and what it gets."""

import msgspec


class Browser(msgspec.Struct, frozen=True):
    session_cookie: str
    form_token: str
    """For the forms of the pages this browser gets."""
    new_form_cookie: str
    """The secret the token is derived from, when the browser has none yet."""
    genuine: bool
    """Whether the form it sent is one of ours, sent from our page."""


class Outcome(msgspec.Struct, frozen=True):
    """A page or a redirect; the session cookie to set, '' to forget it, None to leave it."""

    html: str = ""
    redirect: str = ""
    status: int = 200
    form_targets: str = ""
    session_cookie: str | None = None
    retry_after: int = 0
    happened: str = ""
    """What the audit log is told; nothing: there is nothing to tell."""
    subject: str = ""
