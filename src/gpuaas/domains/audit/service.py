"""The verbs of the audit log: list, get, export, seal, verify. Writing to it is not among them: the operation layer
does that, in the transaction of the change.

Always holds: links are gapless and attached one to the other, however many sealers run; sealing takes no lock that a
request waits for."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.audit import store
from gpuaas.domains.audit.chain import GENESIS, Walk, checkpoint_bytes, links
from gpuaas.domains.audit.models import ChainReport, Checkpoint, Flaw, Head, SealedEntry, SealState, Wanted
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight, Tx
from gpuaas.infra.signing import PublicKey, Purpose, SigningKeys
from gpuaas.kit import log
from gpuaas.kit.errors import Detail, Missing, Refused
from gpuaas.ports.policy import PolicyReader

SEAL_BATCH = 500
WALK_BATCH = 1_000
EXPORT_BATCH = 500
MAX_FLAWS = 20
PATIENCE_SECONDS = 300  # a check of everything may take longer than a request's statement
SEALER = "system:audit.seal"


async def audit_list(tx: Tx, wanted: Wanted, *, before: UUID | None, limit: int) -> list[SealedEntry]:
    """Newest first."""
    return await store.newest(tx, _checked(wanted), before=before, limit=limit)


async def audit_get(tx: Tx, audit_id: UUID, org_id: UUID | None) -> SealedEntry:
    found = await store.one(tx, audit_id, org_id)
    if found is None:
        raise Missing(Code.AUDIT_ENTRY_MISSING, "There is no such audit entry here.")
    return found


def audit_export(
    db: Database, sight: Sight, wanted: Wanted, form: Callable[[list[SealedEntry]], bytes], *, header: bytes = b""
) -> AsyncIterator[bytes]:
    """Oldest first, a batch at a time; no connection is held while the reader is slow."""
    return _batches(db, sight, _checked(wanted), form, header)


async def _batches(
    db: Database, sight: Sight, wanted: Wanted, form: Callable[[list[SealedEntry]], bytes], header: bytes
) -> AsyncIterator[bytes]:
    if header:
        yield header
    after: UUID | None = None
    while True:
        async with db.read(sight) as tx:
            found = await store.oldest(tx, wanted, after=after, limit=EXPORT_BATCH)
        if found:
            yield form(found)
        if len(found) < EXPORT_BATCH:
            return
        after = found[-1].id


async def checkpoint_list(
    tx: Tx, keys: SigningKeys, *, before: int | None, limit: int
) -> list[tuple[Checkpoint, PublicKey | None]]:
    known = {key.key_id: key for key in await keys.public_keys(tx, Purpose.AUDIT)}
    found = await store.checkpoints(tx, before=2**63 - 1 if before is None else before, limit=limit)
    return [(checkpoint, known.get(checkpoint.key_id)) for checkpoint in found]


async def audit_seal(db: Database, keys: SigningKeys, policy: PolicyReader) -> int:
    """Link a batch of waiting rows, and sign the head when it is time. How many were linked."""
    async with db.transaction(Sight(PLATFORM), SEALER) as tx:
        if not await store.sealer_lock(tx):
            return 0
        head = await store.head(tx)
        rows = await store.waiting(tx, SEAL_BATCH)
        if rows:
            made = links(rows, after_seq=head.seq, after_hash=head.hash)
            if not await store.seal(tx, head, made):
                raise RuntimeError("the head of the audit chain moved under the sealer's lock")
            head = Head(made[-1].seq, made[-1].hash)
        await _checkpoint_if_due(tx, keys, policy, head)
    return len(rows)


async def _checkpoint_if_due(tx: Tx, keys: SigningKeys, policy: PolicyReader, head: Head) -> None:
    last = await store.last_checkpoint(tx)
    if last is not None:
        seq, age_seconds = last
        due = head.seq > seq and (
            age_seconds >= policy.number("audit.checkpoint_seconds")
            or head.seq - seq >= policy.number("audit.checkpoint_rows")
        )
        if not due:
            return
    elif head.seq == 0:
        return
    signer, at = await keys.signer(tx, Purpose.AUDIT), await store.now(tx)
    signature = signer.sign(checkpoint_bytes(head.seq, head.hash, at))
    made = Checkpoint(seq=head.seq, hash=head.hash, at=at, key_id=signer.key_id, signature=signature)
    await store.add_checkpoint(tx, made)
    # Wherever logs are kept, this line later proves that the chain was not cut or written anew.
    tx.after_commit(
        lambda: log.get_logger().info(
            "audit checkpoint", seq=made.seq, hash=made.hash.hex(), key_id=made.key_id, signature=made.signature.hex()
        )
    )


async def seal_state(tx: Tx) -> SealState:
    return await store.state(tx)


async def chain_verify(tx: Tx, keys: SigningKeys, *, from_seq: int = 1) -> ChainReport:
    """Everything the chain promises, from a link on, in bounded memory. `tx` is a snapshot of the platform's."""
    await tx.be_patient(PATIENCE_SECONDS)
    findings = _Findings()
    for flaw in await store.flaws(tx, MAX_FLAWS):
        findings.add(flaw.subject, flaw.problem)
    walked = await _walk(tx, findings, max(from_seq, 1))
    checked = await _check_signatures(tx, keys, findings)
    return ChainReport(links=walked, checkpoints=checked, flaw_count=findings.count, flaws=findings.first)


class _Findings:
    """Counts all, keeps the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Flaw] = []

    def add(self, subject: str, problem: str) -> None:
        self.count += 1
        if len(self.first) < MAX_FLAWS:
            self.first.append(Flaw(subject, problem))


async def _walk(tx: Tx, findings: _Findings, from_seq: int) -> int:
    walk, walked, position = Walk(), 0, (0, NIL)
    if from_seq > 1:
        before = await store.link_before(tx, from_seq)
        if before is None:
            findings.add(f"link {from_seq - 1}", "the chain cannot be checked from here: the link before is gone")
            before = Head(from_seq - 1, GENESIS)
        walk, position = Walk(after_seq=before.seq, after_hash=before.hash), (from_seq, NIL)
    while True:
        found = await store.chain(tx, seq=position[0], audit_id=position[1], limit=WALK_BATCH)
        for link, row in found:
            for problem in walk.step(link, row):
                findings.add(f"audit row {link.audit_id}", problem)
        walked += len(found)
        if len(found) < WALK_BATCH:
            return walked
        position = found[-1][0].seq, found[-1][0].audit_id


async def _check_signatures(tx: Tx, keys: SigningKeys, findings: _Findings) -> int:
    known = {key.key_id: key for key in await keys.public_keys(tx, Purpose.AUDIT)}
    checked, after = 0, -(2**63)
    while True:
        found = await store.checkpoints_up(tx, after=after, limit=WALK_BATCH)
        for checkpoint in found:
            key = known.get(checkpoint.key_id)
            signed = checkpoint_bytes(checkpoint.seq, checkpoint.hash, checkpoint.at)
            if key is None:
                findings.add(f"checkpoint {checkpoint.seq}", "signed with a key that is not known")
            elif not key.verifies(signed, checkpoint.signature):
                findings.add(f"checkpoint {checkpoint.seq}", "the signature does not hold")
        checked += len(found)
        if len(found) < WALK_BATCH:
            return checked
        after = found[-1].seq


def _checked(wanted: Wanted) -> Wanted:
    for name, at in (("from", wanted.from_at), ("to", wanted.to_at)):
        try:
            _ = at and at.astimezone(UTC)
        except OverflowError:
            reason = "there is no such instant in UTC"
            raise Refused(Code.REQUEST_INVALID, f"{name}: {reason}.", details=[Detail(name, reason)]) from None
    if wanted.from_at is not None and wanted.to_at is not None and wanted.from_at >= wanted.to_at:
        raise Refused(Code.REQUEST_INVALID, "from must be before to.", details=[Detail("from", "not before to")])
    return wanted


def wanted_from(query: msgspec.Struct, **more: UUID | None) -> Wanted:
    """The filters of a query, and what the path says beside them."""
    given = {name: getattr(query, name, None) for name in Wanted.__struct_fields__}
    return Wanted(**(given | more))
