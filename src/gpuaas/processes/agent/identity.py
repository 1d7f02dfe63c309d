"""Who the agent is: its enrolment, and its key with its certificate in one file, so that they never disagree.

The key is made here and never leaves the machine. Each renewal makes a new one."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from gpuaas.kit import signed_usage
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.state_directory import StateDirectory

ENROLMENT, IDENTITY = "agent.json", "identity.pem"


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """What enrolment said, once. `enrolled_from` is where."""

    node_id: UUID
    name: str
    agent_url: str
    enrolled_from: str


@dataclass(frozen=True)
class Request:
    """A key made just now and the request for its certificate."""

    key: bytes
    csr: str


def make_request(name: str) -> Request:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64] or "node")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Request(plain, csr.public_bytes(Encoding.PEM).decode())


@dataclass(frozen=True)
class Identity:
    """The certificate in use; `renew_at` is the middle of its life."""

    not_before: datetime
    not_after: datetime
    chain: list[x509.Certificate]
    """What came with it: its issuers, and the links from roots of before to today's."""

    @property
    def life_seconds(self) -> float:
        return (self.not_after - self.not_before).total_seconds()

    @property
    def renew_at(self) -> datetime:
        return self.not_before + (self.not_after - self.not_before) / 2


def keep_identity(state: StateDirectory, node_id: UUID, key: bytes, chain: str) -> Identity:
    """Keep a key with its certificate; refused when they do not belong together or to this node."""
    try:
        certificate, *others = x509.load_pem_x509_certificates(chain.encode())
        if load_pem_private_key(key, None).public_key() != certificate.public_key():
            raise AgentError("the control plane sent a certificate for another key")
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if not any(
            uri.startswith("spiffe://") and uri.endswith(f"/node/{node_id}")
            for uri in names.get_values_for_type(x509.UniformResourceIdentifier)
        ):
            raise AgentError("the control plane sent a certificate for another node")
    except (ValueError, x509.ExtensionNotFound) as error:
        raise AgentError("the control plane sent a certificate that cannot be read") from error
    state.write(IDENTITY, key + chain.encode())
    return Identity(certificate.not_valid_before_utc, certificate.not_valid_after_utc, others)


def read_identity(state: StateDirectory) -> Identity:
    content = state.read(IDENTITY)
    if content is None:
        raise AgentError(f"{state.path / IDENTITY} is missing: enrol this node again")
    try:
        certificate, *others = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise AgentError(f"{state.path / IDENTITY} is damaged: enrol this node again") from None
    return Identity(certificate.not_valid_before_utc, certificate.not_valid_after_utc, others)


def read_enrolment(state: StateDirectory) -> Enrolment:
    content = state.read(ENROLMENT)
    if content is None:
        raise AgentError(f"this node is not enrolled ({state.path}): run the command the control plane printed for it")
    try:
        return msgspec.json.decode(content, type=Enrolment)
    except msgspec.MsgspecError:
        raise AgentError(f"{state.path / ENROLMENT} is damaged: enrol this node again") from None


def tls_context(state: StateDirectory, authorities: list[str]) -> ssl.SSLContext:
    """Our certificate for the server, and for the server's only our own authorities; its name is checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata="\n".join(authorities))
        context.load_cert_chain(state.path / IDENTITY)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise AgentError(f"the certificates in {state.path} cannot be used: {error}") from None
    return context


def sign_usage(state: StateDirectory, node_id: UUID, counted: Mapping[UUID, int]) -> str:
    """With the key of today; empty if it cannot be read now: then nobody has to believe it."""
    content = state.read(IDENTITY)
    return "" if content is None else signed_usage.sign(content, signed_usage.words(node_id, counted))
