"""A real SMTP server for tests: keeps what it is given, and can refuse, be slow, or hang up at the worst moment."""

import asyncio
import email
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP

from gpuaas.infra.embedded.ports import free_port

HOST = "127.0.0.1"
Meanwhile = Callable[[str], Awaitable[None]]


class Mailbox:
    def __init__(self) -> None:
        self.port = free_port()
        self.taken: list[tuple[str, bytes]] = []
        """Everything that was handed over, to whom, in order."""
        self.answers: dict[str, str] = {}
        """By command ('RCPT', 'DATA', 'MAIL'): what is said instead of yes."""
        self.cuts = 0
        """So many times the connection is cut right after a message was taken."""
        self.meanwhile: Meanwhile | None = None
        """Runs while the sender waits for the answer to its message."""
        self.talking = self.most_talking = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"smtp://{HOST}:{self.port}"

    def read(self, index: int = -1) -> EmailMessage:
        found = email.message_from_bytes(self.taken[index][1], policy=default)
        assert isinstance(found, EmailMessage)
        return found

    def to(self, address: str) -> list[EmailMessage]:
        return [self.read(index) for index, (to, _) in enumerate(self.taken) if to == address]

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SMTP(self, loop=loop, enable_SMTPUTF8=True), HOST, self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    # what aiosmtpd asks ----------------------------------------------------------------------------------------------
    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802 # aiosmtpd's name
        if "MAIL" in self.answers:
            return self.answers["MAIL"]
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802 # aiosmtpd's name
        if "RCPT" in self.answers:
            return self.answers["RCPT"]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 # aiosmtpd's name
        self.talking += 1
        self.most_talking = max(self.most_talking, self.talking)
        try:
            if self.meanwhile is not None:
                await self.meanwhile(envelope.rcpt_tos[0])
        finally:
            self.talking -= 1
        if "DATA" in self.answers:
            return self.answers["DATA"]
        self.taken.append((envelope.rcpt_tos[0], envelope.original_content))
        if self.cuts:
            self.cuts -= 1
            server.transport.abort()
        return "250 OK"


@asynccontextmanager
async def mailbox() -> AsyncIterator[Mailbox]:
    made = Mailbox()
    await made.open()
    try:
        yield made
    finally:
        await made.close()
