"""Mail over SMTP, as the settings say: `smtp://`, `smtps://` (TLS from the first byte), `smtp+starttls://` (TLS or
nothing).

Always holds: a password is never sent in clear over a network; a refusal counts as final only when it is about this
message or its address: a server that refuses us, our login or our sender is one to be mended, and nothing is lost
meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import unquote, urlsplit

import aiosmtplib

from gpuaas.kit import log
from gpuaas.ports.mail import MailAway, MailRefused, MailServer, MailSession

SCHEMES = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
COMMAND_SECONDS = 15.0
MESSAGE_SECONDS = 30.0
GOODBYE_SECONDS = 2.0
FINAL = 500
MAX_REASON = 300


class SmtpServer(MailServer):
    def __init__(self, url: str, sender: str, *, command_seconds: float = COMMAND_SECONDS) -> None:
        self._url = url
        self._seconds = command_seconds
        self.sender = sender

    @property
    def configured(self) -> bool:
        return bool(self._url)

    def session(self) -> AbstractAsyncContextManager[MailSession]:
        return self._session()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[MailSession]:
        client = self._client()
        try:
            await client.connect()
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            client.close()
            raise MailAway(reason_of(error)) from error
        try:
            yield SmtpSession(client, self.sender)
        finally:
            with contextlib.suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await client.quit()
            client.close()

    def _client(self) -> aiosmtplib.SMTP:
        parts = urlsplit(self._url)
        return aiosmtplib.SMTP(
            hostname=parts.hostname,
            port=parts.port or SCHEMES[parts.scheme],
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            use_tls=parts.scheme == "smtps",
            start_tls=parts.scheme == "smtp+starttls",
            timeout=self._seconds,
        )


class SmtpSession(MailSession):
    def __init__(self, client: aiosmtplib.SMTP, sender: str) -> None:
        self._client = client
        self._sender = sender

    async def send(self, to: str, content: bytes) -> None:
        try:
            async with asyncio.timeout(MESSAGE_SECONDS):
                await self._client.sendmail(self._sender, [to], content)
        except aiosmtplib.SMTPRecipientsRefused as refused:
            raise _judged(refused.recipients[0]) from refused
        except aiosmtplib.SMTPDataError as refused:
            raise _judged(refused) from refused
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise MailAway(reason_of(error)) from error


def _judged(refused: aiosmtplib.SMTPResponseException) -> Exception:
    kind = MailRefused if refused.code >= FINAL else MailAway
    return kind(reason_of(refused))


def reason_of(error: BaseException) -> str:
    """For the operator: one line, without secrets, whatever the server said."""
    if isinstance(error, aiosmtplib.SMTPResponseException):
        said = f"{error.code} {error.message}"
    else:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
    return log.scrub_text(" ".join(said.split()))[:MAX_REASON]
