"""The verbs of the nodes' certificate authority, and the door for other domains: tokens, enrolment, renewal,
revocation, rotation, and whom to trust.

Always holds: a certificate names one node, the one its token or its last certificate was for; whatever a request asks
for, it gets that name and client authentication, for as long as the policy says and never beyond its authority; only an
operator's token makes an identity, and it makes one; nothing is signed by an authority outside of its time."""

import base64
import hashlib
import secrets
from datetime import timedelta
from textwrap import wrap
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.pki import AuthorityKind, RotatedKind
from gpuaas.domains.pki import store
from gpuaas.domains.pki.models import (
    AuthorityRow,
    AuthorityStanding,
    BootstrapToken,
    CertificateRow,
    Issued,
    NewCertificate,
)
from gpuaas.domains.pki.signing_request import RequestRefused, public_key_of
from gpuaas.domains.pki.site import Pki
from gpuaas.domains.pki.spiffe import node_name
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Detail, Limited, Missing, Refused, Unauthenticated
from gpuaas.kit.ids import NodeId, new_id
from gpuaas.kit.secrets import BOOTSTRAP_PREFIX, new_token, token_hash
from gpuaas.ports.ca import Authority, Leaf, Usage, Validity

BACKDATED = timedelta(minutes=10)
"""Clocks differ, by five minutes without harm: a certificate counts from a while before it was made, so that who is
behind believes it at once; a short-lived one from less."""
ROOT_LIFE = timedelta(days=3650)
INTERMEDIATE_LIFE = timedelta(days=365)
FOLLOWED_AT = INTERMEDIATE_LIFE / 3
"""With this much of its life left an intermediate is followed by a new one, by whoever needs a signature next."""
MAX_PER_LIFE = 20
SERIAL_BITS = 128

certificate_list = store.certificates
authority_list = store.authorities
trust_mark = store.trust_mark
revoked_since = store.revoked_since
expired_prune = store.prune


# tokens, enrolment ----------------------------------------------------------------------------------------------------
async def bootstrap_token_create(tx: Tx, node_id: UUID, *, seconds: int) -> BootstrapToken:
    """By which one machine becomes this node, once. An earlier token of the node that was not used is void."""
    await store.tokens_retire(tx, node_id)
    token = new_token(BOOTSTRAP_PREFIX)
    made = await store.token_add(tx, new_id(), node_id, token_hash(token), seconds)
    return BootstrapToken(token=token, expires_at=made["expires_at"])


async def enrol(tx: Tx, pki: Pki, token: str, csr_pem: str, *, seconds: int) -> tuple[NodeId, Issued]:
    """The node the token was made for, and its certificate. Certificates the node had before are revoked."""
    public_key = _public_key(csr_pem)
    used = await store.token_use(tx, token_hash(token))
    if used is None:
        raise Unauthenticated(
            Code.BOOTSTRAP_TOKEN_REFUSED, "The token is unknown, expired or used. Ask an operator for a new one."
        )
    token_id, node_id = used
    await store.revoke_node(tx, node_id, "enrolled again")
    issued = await _issue_node(tx, pki, NodeId(node_id), public_key, seconds=seconds)
    await store.token_note(tx, token_id, issued.certificate.id)
    return NodeId(node_id), issued


async def renew(tx: Tx, pki: Pki, node_id: UUID, csr_pem: str, *, shown: str, seconds: int) -> Issued:
    """A new certificate for a node that has just shown its old one (by serial number), which counts until the new one
    was shown. Asked again for the same key (the answer was lost), the same certificate comes back. One that was
    replaced counts for what is under way, but begets no other: whoever copied it is out when its time is over."""
    public_key = _public_key(csr_pem)
    await store.lock_node(tx, node_id)
    if await store.is_superseded(tx, node_id, shown):
        raise Unauthenticated(Code.CREDENTIAL_REVOKED, "This certificate was replaced by a newer one.")
    before = await store.with_same_key(tx, node_id, _sha256(public_key))
    if before is not None:
        return Issued(certificate=before, chain=await _chain(tx, before))
    if await store.recent_count(tx, node_id, seconds) >= MAX_PER_LIFE:
        raise Limited(
            Code.CERTIFICATE_LIMIT, "This node was given too many certificates lately.", retry_after=seconds / 2
        )
    return await _issue_node(tx, pki, NodeId(node_id), public_key, seconds=seconds)


async def _issue_node(tx: Tx, pki: Pki, node_id: NodeId, public_key: bytes, *, seconds: int) -> Issued:
    return await _issue(
        tx, pki, Usage.CLIENT, (node_name(pki.trust_domain, node_id),), public_key, node_id=node_id, seconds=seconds
    )


async def server_issue(tx: Tx, pki: Pki, names: tuple[str, ...], public_key: bytes, *, seconds: int) -> Issued:
    """For the agents' listener itself."""
    return await _issue(tx, pki, Usage.SERVER, names, public_key, node_id=None, seconds=seconds)


async def _issue(
    tx: Tx, pki: Pki, usage: Usage, names: tuple[str, ...], public_key: bytes, *, node_id: NodeId | None, seconds: int
) -> Issued:
    authority, now = await signer(tx, pki), clock.now()
    serial = secrets.randbits(SERIAL_BITS) or 1
    life = timedelta(seconds=seconds)
    not_before = max(now - min(BACKDATED, life / 4), authority.not_before).replace(microsecond=0)
    not_after = min(now + life, authority.not_after).replace(microsecond=0)
    der = await pki.ca.sign(
        _held(authority),
        Leaf(
            public_key=public_key, usage=usage, names=names, serial=serial, not_before=not_before, not_after=not_after
        ),
    )
    row = await store.certificate_add(
        tx,
        NewCertificate(
            id=new_id(),
            kind="node" if usage is Usage.CLIENT else "server",
            node_id=node_id,
            authority_id=authority.id,
            serial=f"{serial:032x}",
            fingerprint=_sha256(der),
            public_key_hash=_sha256(public_key),
            certificate=der,
            not_before=not_before,
            not_after=not_after,
        ),
    )
    return Issued(certificate=row, chain=await _chain(tx, row))


async def _chain(tx: Tx, row: CertificateRow) -> str:
    """What a holder shows: the certificate, its authority's, and the ways from roots of before to today's."""
    known = await store.authorities(tx)
    above = [a for a in known if a.id == row.authority_id]
    above += [a for a in known if a.kind is AuthorityKind.CROSS and a.trusted]
    return "".join(pem(der) for der in (row.certificate, *(a.certificate for a in above)))


# revocation -----------------------------------------------------------------------------------------------------------
async def certificate_revoke(tx: Tx, certificate_id: UUID, reason: str) -> CertificateRow:
    revoked = await store.revoke(tx, certificate_id, reason)
    if revoked is not None:
        return revoked
    if await store.certificate_get(tx, certificate_id) is None:
        raise Missing(Code.CERTIFICATE_MISSING, "There is no such certificate of a node.")
    raise Conflict(Code.CERTIFICATE_ENDED, "The certificate has expired or was revoked before.")


async def revoke_node(tx: Tx, node_id: UUID, reason: str) -> int:
    """Everything by which anybody could be this node: its certificates, and its token."""
    await store.tokens_retire(tx, node_id)
    return await store.revoke_node(tx, node_id, reason)


# authorities ----------------------------------------------------------------------------------------------------------
async def trust(tx: Tx) -> list[str]:
    """The roots an agent trusts, in PEM, newest first: both, while one follows the other."""
    return [pem(a.certificate) for a in await store.authorities(tx) if a.trusted and a.kind is AuthorityKind.ROOT]


async def trusted(tx: Tx) -> list[AuthorityStanding]:
    """All authorities whose signatures still count, newest first. Ways from one root to another are for those who do
    not know the other: among what is trusted they would lead in circles."""
    known = await store.authorities(tx)
    return [authority for authority in known if authority.trusted and authority.kind is not AuthorityKind.CROSS]


async def signer(tx: Tx, pki: Pki) -> AuthorityRow:
    """The intermediate that signs now. Whoever asks first makes it, and whoever asks near its end, its successor."""
    found = await store.signing(tx, AuthorityKind.INTERMEDIATE)
    if found is None or found.not_after - clock.now() < FOLLOWED_AT:
        await store.lock(tx)
        found = await store.signing(tx, AuthorityKind.INTERMEDIATE)
    if found is None or found.not_after - clock.now() < FOLLOWED_AT:
        return await _intermediate(tx, pki)
    return found


async def ca_rotate(tx: Tx, pki: Pki, kind: RotatedKind, *, distrust_old: bool) -> None:
    """A new authority signs from this commit on. The old ones stay trusted while something they signed lives; or, when
    distrusted, nothing they signed counts any more."""
    await store.lock(tx)
    if kind is RotatedKind.ROOT:
        await _root(tx, pki, cross=not distrust_old)
    await _intermediate(tx, pki)
    if distrust_old:
        await store.distrust_retired(tx, AuthorityKind(kind))


async def _intermediate(tx: Tx, pki: Pki) -> AuthorityRow:
    """Under the lock. Certified by a root that outlives it."""
    root = await store.signing(tx, AuthorityKind.ROOT)
    if root is None or root.not_after < clock.now() + INTERMEDIATE_LIFE:
        root = await _root(tx, pki, cross=True)
    validity, authority_id = _validity(INTERMEDIATE_LIFE), new_id()
    subject = _subject(pki, AuthorityKind.INTERMEDIATE, authority_id)
    made = await pki.ca.intermediate(_held(root), authority_id, subject, validity)
    await store.retire(tx, AuthorityKind.INTERMEDIATE)
    return await _keep(tx, AuthorityKind.INTERMEDIATE, made, subject, validity, root.id)


async def _root(tx: Tx, pki: Pki, *, cross: bool) -> AuthorityRow:
    """Under the lock. `cross`: the root before certifies it, so that who knows only that one can follow."""
    before, validity, authority_id = await store.signing(tx, AuthorityKind.ROOT), _validity(ROOT_LIFE), new_id()
    subject = _subject(pki, AuthorityKind.ROOT, authority_id)
    made = await pki.ca.root(authority_id, subject, validity)
    await store.retire(tx, AuthorityKind.ROOT)
    root = await _keep(tx, AuthorityKind.ROOT, made, subject, validity, None)
    if before is not None and cross:
        limited = Validity(not_before=validity.not_before, not_after=min(validity.not_after, before.not_after))
        der = await pki.ca.cross(_held(before), made, limited)
        way = Authority(id=new_id(), certificate=der, key_sealed=b"")
        await _keep(tx, AuthorityKind.CROSS, way, subject, limited, before.id)
    return root


async def _keep(
    tx: Tx, kind: AuthorityKind, made: Authority, subject: str, validity: Validity, parent_id: UUID | None
) -> AuthorityRow:
    return await store.authority_add(
        tx,
        AuthorityRow(
            id=made.id,
            kind=kind,
            parent_id=parent_id,
            subject=subject,
            certificate=made.certificate,
            fingerprint=_sha256(made.certificate),
            key_sealed=made.key_sealed or None,
            not_before=validity.not_before,
            not_after=validity.not_after,
            created_at=clock.now(),
            retired_at=None,
            distrusted_at=None,
        ),
    )


def pem(der: bytes) -> str:
    """A certificate as text."""
    body = "\n".join(wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


def _subject(pki: Pki, kind: AuthorityKind, authority_id: UUID) -> str:
    """No two authorities have the same name: chains are found by names."""
    return f"{pki.trust_domain} {kind} {authority_id.hex[-12:]}"[-64:]


def _held(row: AuthorityRow) -> Authority:
    return Authority(id=row.id, certificate=row.certificate, key_sealed=row.key_sealed or b"")


def _validity(life: timedelta) -> Validity:
    start = (clock.now() - BACKDATED).replace(microsecond=0)
    return Validity(not_before=start, not_after=start + life)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _public_key(csr_pem: str) -> bytes:
    try:
        return public_key_of(csr_pem)
    except RequestRefused as error:
        raise Refused(
            Code.CSR_REFUSED,
            f"The certificate request is refused: {error}.",
            details=[Detail("csr", str(error))],
        ) from error
