"""Mail servers as there are: with TLS from the first byte, with STARTTLS, with a login; and those that only pretend."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpuaas.infra.smtp.server import SmtpServer
from gpuaas.kit import clock
from gpuaas.ports.mail import MailAway, MailRefused
from tests.support.certificates import common_name, new_key
from tests.support.mailbox import HOST, Mailbox

LETTER = b"Subject: x\r\n\r\nHello.\r\n"
USER, PASSWORD = "ada", "p@ss/word:1"
SHOWN = "ada:p%40ss%2Fword%3A1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this machine's own address, signed by nobody but itself: certificate and key in one file."""
    key, now = new_key(), clock.now()
    made = (
        x509.CertificateBuilder()
        .subject_name(common_name("mail"))
        .issuer_name(common_name("mail"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("mail") / "both.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(made.public_bytes(Encoding.PEM) + private)
    return file


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an operator makes a machine trust his own authority."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def logins(seen: list[str]) -> Callable[..., AuthResult]:
    def look(server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        seen.append(given.password.decode())
        return AuthResult(success=(given.login, given.password) == (USER.encode(), PASSWORD.encode()))

    return look


@asynccontextmanager
async def serving(box: Mailbox, certificate: Path, **options: Any) -> AsyncIterator[None]:
    """`tls`: from the first byte; otherwise STARTTLS is offered, unless it is `plain`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    tls, plain = options.pop("tls", False), options.pop("plain", False)
    offered: dict[str, Any] = {} if tls or plain else {"tls_context": context}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(box, loop=loop, **offered, **options), HOST, box.port, ssl=context if tls else None
    )
    try:
        yield
    finally:
        server.close()


async def send(box: Mailbox, scheme: str, login: str = "") -> None:
    url = f"{scheme}://{login + '@' if login else ''}{HOST}:{box.port}"
    async with SmtpServer(url, "gpuaas@mail.example", command_seconds=5).session() as session:
        await session.send("ada@example.com", LETTER)


async def test_tls_from_the_first_byte(certificate: Path, trusted: None):
    box = Mailbox()
    async with serving(box, certificate, tls=True):
        await send(box, "smtps")
    assert [to for to, _ in box.taken] == ["ada@example.com"]


async def test_starttls_and_a_login_with_any_characters(certificate: Path, trusted: None):
    box, seen = Mailbox(), list[str]()
    async with serving(box, certificate, authenticator=logins(seen), auth_required=True, require_starttls=True):
        await send(box, "smtp+starttls", SHOWN)
        with pytest.raises(MailAway):
            await send(box, "smtp+starttls", "ada:wrong")
    assert len(box.taken) == 1
    assert set(seen) >= {PASSWORD, "wrong"}


async def test_a_server_nobody_vouches_for_gets_neither_password_nor_mail(certificate: Path):
    box, seen = Mailbox(), list[str]()
    async with serving(box, certificate, authenticator=logins(seen)):
        with pytest.raises(MailAway, match="certificate"):
            await send(box, "smtp+starttls", SHOWN)
    async with serving(box, certificate, tls=True, authenticator=logins(seen)):
        with pytest.raises(MailAway, match="certificate"):
            await send(box, "smtps", SHOWN)
    assert (box.taken, seen) == ([], [])


async def test_a_server_without_starttls_gets_nothing_in_clear(certificate: Path, trusted: None):
    box, seen = Mailbox(), list[str]()
    async with serving(box, certificate, plain=True, authenticator=logins(seen), auth_require_tls=False):
        with pytest.raises(MailAway):
            await send(box, "smtp+starttls", SHOWN)
    assert (box.taken, seen) == ([], [])


async def test_one_refused_message_does_not_end_the_conversation(certificate: Path):
    box = Mailbox()
    server = SmtpServer(box.url, "gpuaas@mail.example")
    async with serving(box, certificate, plain=True), server.session() as session:
        box.answers["RCPT"] = "550 no\x1b[2J such user"
        with pytest.raises(MailRefused, match="550 no") as said:
            await session.send("nobody@example.com", LETTER)
        assert "\x1b" not in str(said.value)
        box.answers.clear()
        await session.send("ada@example.com", LETTER)
    assert [to for to, _ in box.taken] == ["ada@example.com"]
