"""What the agent trusts: certificate authorities for the server it speaks to, task keys for the orders it follows.

Always holds: both came with enrolment or by a chain from what was trusted before. An authority is taken when a trusted
one has certified its key; a task key when a trusted one has signed a statement that names it. What the control plane no
longer lists is dropped, but never the last."""

import base64
import binascii
from dataclasses import dataclass

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.contracts.http.agent import TaskKeyView, TrustView
from gpuaas.contracts.tasks.keys import STATEMENT_TYPE, KeyStatement
from gpuaas.kit import dsse
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.state_directory import StateDirectory

TRUST = "trust.json"
MOST = 50


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    authorities: list[str]
    task_keys: list[TaskKeyView]


@dataclass(frozen=True)
class Trust:
    authorities: list[str]
    task_keys: dict[str, Ed25519PublicKey]


def first_trust(view: TrustView) -> Trust:
    """As given with enrolment."""
    if not view.authorities or not view.task_keys:
        raise AgentError("the control plane named no certificate authority or no task key")
    for authority in view.authorities:
        _certificate(authority)
    return Trust(list(view.authorities), {key.key_id: _public(key.public_key) for key in view.task_keys})


def follow(trust: Trust, view: TrustView, shown: list[x509.Certificate]) -> Trust:
    """What is trusted after the control plane showed this: only what a chain leads to. `shown`: certificates that may
    be links of it, such as those that came with our own."""
    return Trust(_follow_authorities(trust.authorities, view.authorities, shown), _follow_keys(trust.task_keys, view))


def _follow_keys(trusted: dict[str, Ed25519PublicKey], view: TrustView) -> dict[str, Ed25519PublicKey]:
    known, waiting = dict(trusted), list(view.key_statements[:MOST])
    while True:  # statements may come in any order; each round some lead on, or none ever will
        left = [envelope for envelope in waiting if not _learn(known, envelope)]
        if len(left) == len(waiting):
            break
        waiting = left
    listed = {key.key_id for key in view.task_keys}
    kept = {key_id: key for key_id, key in known.items() if key_id in listed}
    return kept or trusted


def _learn(known: dict[str, Ed25519PublicKey], envelope: str) -> bool:
    try:
        payload, signer = dsse.unseal(envelope.encode(), STATEMENT_TYPE, known)
        statement = msgspec.json.decode(payload, type=KeyStatement)
        if statement.previous_key_id != signer:
            return False
        known.setdefault(statement.key_id, _public(statement.public_key))
    except (dsse.EnvelopeRefused, msgspec.MsgspecError, AgentError, UnicodeError):
        return False
    return True


def _follow_authorities(trusted: list[str], listed: list[str], shown: list[x509.Certificate]) -> list[str]:
    """Those listed that are trusted already, are certified by a trusted one, or have the key of one that is."""
    old = [_certificate(text) for text in trusted]
    good_keys = {_key_of(certificate) for certificate in old}
    candidates = []
    for text in listed[:MOST]:
        try:
            candidates.append((text, _certificate(text)))
        except AgentError:
            continue
    links = [*old, *shown[:MOST], *(candidate for _, candidate in candidates)]
    growing = True
    while growing:
        trustees = [link for link in links if _key_of(link) in good_keys]
        found = {
            _key_of(link)
            for link in links
            if _key_of(link) not in good_keys and any(_certified(link, issuer) for issuer in trustees)
        }
        good_keys |= found
        growing = bool(found)
    return [text for text, candidate in candidates if _key_of(candidate) in good_keys] or trusted


def _certified(candidate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        if not candidate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        candidate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return True


def _certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError:
        raise AgentError("the control plane showed an authority that cannot be read") from None


def _key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _public(text: str) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        raise AgentError("the control plane showed a task key that cannot be read") from None


def keep_trust(state: StateDirectory, trust: Trust) -> None:
    keys = [
        TaskKeyView(
            key_id=key_id, public_key=base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
        )
        for key_id, key in trust.task_keys.items()
    ]
    state.write(TRUST, msgspec.json.encode(Kept(authorities=trust.authorities, task_keys=keys)))


def read_trust(state: StateDirectory) -> Trust:
    content = state.read(TRUST)
    if content is None:
        raise AgentError(f"{state.path / TRUST} is missing: enrol this node again")
    try:
        kept = msgspec.json.decode(content, type=Kept)
    except msgspec.MsgspecError:
        raise AgentError(f"{state.path / TRUST} is damaged: enrol this node again") from None
    return first_trust(TrustView(authorities=kept.authorities, task_keys=kept.task_keys))
