"""What we ask of whatever carries mail. A message that was taken is the server's; what went wrong is one of two things:
this message will never be taken, or the same may work later."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class MailAway(Exception):
    """It was not taken, or nobody knows: the same may work later. The message says why."""


class MailRefused(Exception):
    """This message to this address will not be taken, however often it is tried."""


class MailSession(Protocol):
    async def send(self, to: str, content: bytes) -> None:
        """Hand over one message. After MailAway the session is over."""
        ...


class MailServer(Protocol):
    sender: str
    """The address mail comes from."""

    @property
    def configured(self) -> bool:
        """Whether there is a server at all."""
        ...

    def session(self) -> AbstractAsyncContextManager[MailSession]:
        """A conversation for any number of messages; MailAway when there is none to be had."""
        ...
