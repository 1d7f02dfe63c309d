"""Keys, requests and certificates of tests: of nodes that were enrolled, and of those who only pretend."""

import os
import ssl
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpuaas.domains.pki import service
from gpuaas.domains.pki.models import Issued
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id

SEES_ALL = Sight(PLATFORM)
DAY = 86_400


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public(key: Any) -> bytes:
    der: bytes = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return der


def request_for(key: Any, name: str = "node", *extensions: x509.ExtensionType) -> str:
    built = x509.CertificateSigningRequestBuilder().subject_name(common_name(name))
    for extension in extensions:
        built = built.add_extension(extension, critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return built.sign(key, algorithm).public_bytes(Encoding.PEM).decode()


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Held:
    """A certificate with its key: what its holder shows."""

    chain: str
    key: Any
    node_id: UUID | None = None
    issued: Issued | None = None

    @property
    def leaf(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.chain.encode())

    @property
    def der(self) -> bytes:
        return self.leaf.public_bytes(Encoding.DER)

    def load(self, context: ssl.SSLContext) -> None:
        plain = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file = os.memfd_create("held")
        os.write(file, self.chain.encode() + plain)
        context.load_cert_chain(f"/proc/self/fd/{file}")
        os.close(file)

    def context(self, authorities: list[str]) -> ssl.SSLContext:
        """As an agent connects."""
        context = trusting(authorities)
        self.load(context)
        return context


def trusting(authorities: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata="\n".join(authorities))
    return context


def client(url: str, context: ssl.SSLContext) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, verify=context, timeout=10, trust_env=False)


async def enrolled(db: Database, pki: Pki, *, seconds: int = DAY, node_id: UUID | None = None) -> Held:
    """A node as an operator's token makes one."""
    key, node_id = new_key(), node_id or new_id()
    async with db.transaction(SEES_ALL, "tests") as tx:
        await tx.run(
            "INSERT INTO nodes (id, name, region, sku_id, state) VALUES ($1, $2, 'eu', $3, 'active') "
            "ON CONFLICT DO NOTHING",
            node_id,
            f"n-{node_id.hex}",
            new_id(),
        )
        await tx.run("INSERT INTO task_sequences (node_id) VALUES ($1) ON CONFLICT DO NOTHING", node_id)
        token = await service.bootstrap_token_create(tx, node_id, seconds=600)
    async with db.transaction(Sight(), "tests") as tx:
        found, issued = await service.enrol(tx, pki, token.token, request_for(key), seconds=seconds)
    return Held(issued.chain, key, found, issued)


async def authorities(db: Database) -> list[str]:
    async with db.read(SEES_ALL) as tx:
        return await service.trust(tx)


class Forger:
    """An authority of one's own."""

    def __init__(self, key: Any = None, issuer: x509.Name | None = None) -> None:
        self.key = key or new_key()
        self.name = issuer or common_name("forged root")
        self.certificate = self._signed(
            self.name, self.key.public_key(), [(x509.BasicConstraints(ca=True, path_length=None), True)]
        )

    def leaf(
        self,
        *names: x509.GeneralName,
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
        serial: int | None = None,
    ) -> Held:
        key = new_key()
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([usage]), False)]
        if names:
            extensions.append((x509.SubjectAlternativeName(names), False))
        made = self._signed(common_name("leaf"), key.public_key(), extensions, serial)
        return Held(made.public_bytes(Encoding.PEM).decode(), key)

    def alone(self, *names: x509.GeneralName) -> Held:
        """A certificate signed by its own key."""
        made = self._signed(self.name, self.key.public_key(), [(x509.SubjectAlternativeName(names), False)])
        return Held(made.public_bytes(Encoding.PEM).decode(), self.key)

    def _signed(self, subject: x509.Name, public: Any, extensions: list[Any], serial: int | None = None) -> Any:
        built = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(serial or x509.random_serial_number())
            .not_valid_before(clock.now() - timedelta(hours=1))
            .not_valid_after(clock.now() + timedelta(days=1))
        )
        for extension, critical in extensions:
            built = built.add_extension(extension, critical=critical)
        return built.sign(self.key, hashes.SHA256())
