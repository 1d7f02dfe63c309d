"""The verbs of operating: verify what must hold, tell what is behind, tell how this program fares."""

import asyncio

import msgspec

import gpuaas
from gpuaas.contracts.http.admin import (
    ChainView,
    ConsumerLag,
    Finding,
    Health,
    HealthFigures,
    InvariantView,
    PoolUse,
    ProcessStats,
    Verification,
)
from gpuaas.domains.admin import store
from gpuaas.domains.admin.diagnosis import diagnose
from gpuaas.domains.admin.models import Invariant
from gpuaas.domains.admin.process import usage
from gpuaas.domains.audit import service as audit
from gpuaas.domains.audit.models import ChainReport
from gpuaas.domains.notifications.mail.service import emails_waiting
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.http.app import App
from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit import clock

EVERYTHING = Sight(PLATFORM)
CHAIN = "invariant_19_audit_chain"


async def ops_verify(db: Database, keys: SigningKeys, *, chain_from: int) -> Verification:
    """Every invariant and the audit chain, all in one snapshot: what is told was true at one instant."""
    at, started = clock.now(), clock.monotonic()
    async with db.inspection(EVERYTHING) as tx:
        invariants = await store.invariants(tx, asked_elsewhere=CHAIN)
        chain = await audit.chain_verify(tx, keys, from_seq=chain_from)
    told = [_view(invariant, chain) for invariant in invariants]
    return Verification(
        holds=all(view.holds for view in told),
        at=at,
        seconds=round(clock.monotonic() - started, 3),
        invariants=told,
        chain=ChainView(from_link=chain_from, links=chain.links, checkpoints=chain.checkpoints),
    )


def _view(invariant: Invariant, chain: ChainReport) -> InvariantView:
    """The chain's own check tells what its view finds, and what only recomputing shows."""
    is_chain = invariant.name == CHAIN
    count = chain.flaw_count if is_chain else invariant.count
    first = chain.flaws if is_chain else invariant.first
    return InvariantView(
        name=invariant.name,
        statement=invariant.statement,
        holds=count == 0,
        count=count,
        first=[Finding(subject=row.subject, problem=row.problem) for row in first],
    )


async def ops_health(db: Database, policy: MemoryPolicy) -> Health:
    """What waits and for how long, and in words what is wrong."""
    async with db.read(EVERYTHING) as tx:
        started = clock.monotonic()
        await store.ping(tx)
        database_ms = (clock.monotonic() - started) * 1000
        depths, sealing = await store.depths(tx), await audit.seal_state(tx)
        lags, mail = await store.lags(tx), await emails_waiting(tx)
    figures = HealthFigures(
        database_ms=round(database_ms, 2),
        migration_head=migrate.head(),
        **msgspec.structs.asdict(depths),
        consumers=[ConsumerLag(consumer=name, behind_seconds=round(seconds, 1)) for name, seconds in lags],
        emails_queued=mail.queued,
        emails_oldest_queued_seconds=round(mail.oldest_queued_seconds, 1),
        emails_not_configured=mail.not_configured,
        emails_failed=mail.failed,
        audit_unsealed=sealing.unsealed,
        audit_oldest_unsealed_seconds=sealing.oldest_unsealed_seconds,
        audit_sealed_through=sealing.sealed_through,
        audit_checkpoint_through=sealing.checkpoint_through,
        audit_checkpoint_age_seconds=sealing.checkpoint_age_seconds,
        policy_revision=policy.revision,
        policy_age_seconds=round(policy.age_seconds, 3),
    )
    checks = diagnose(figures, checkpoint_seconds=policy.number("audit.checkpoint_seconds"))
    return Health(ok=all(check.ok for check in checks), checks=checks, figures=figures)


def process_stats(app: App, db: Database, policy: MemoryPolicy) -> ProcessStats:
    in_use, sizes = db.in_use, db.sizes
    return ProcessStats(
        version=gpuaas.__version__,
        **msgspec.structs.asdict(usage()),
        tasks=len(asyncio.all_tasks()),
        requests_in_flight=app.in_flight,
        read_pool=PoolUse(in_use=in_use["reads"], size=sizes["reads"]),
        write_pool=PoolUse(in_use=in_use["writes"], size=sizes["writes"]),
        policy_revision=policy.revision,
        policy_age_seconds=round(policy.age_seconds, 3),
    )
