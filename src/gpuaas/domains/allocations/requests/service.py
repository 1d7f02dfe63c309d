"""The verbs of asking. Always holds: a request is placed, queued or refused in its one transaction; nobody overtakes
those who wait."""

from typing import Protocol

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.allocations import AllocationRequested
from gpuaas.contracts.http.allocations import (
    AllocationAsk,
    AllocationCreate,
    AllocationDetail,
    AllocationState,
    AllocationView,
    EstimateView,
    IfFull,
    Isolation,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.certificates import service as certificates
from gpuaas.domains.allocations.connections.service import accounts_of
from gpuaas.domains.allocations.models import Allocation, NewAllocation
from gpuaas.domains.allocations.money import service as money
from gpuaas.domains.allocations.money.models import Money, Offer
from gpuaas.domains.allocations.placement import service as placement
from gpuaas.domains.allocations.queue import service as queue
from gpuaas.domains.allocations.quotas import service as quotas
from gpuaas.domains.allocations.requests.rules import check_ask, lease_seconds
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.allocations.views import connection_view, fields, gpu_view, view
from gpuaas.domains.billing.budgets import service as budgets
from gpuaas.domains.billing.standing import service as standing
from gpuaas.domains.identity.ssh_keys import service as ssh_keys
from gpuaas.domains.identity.ssh_keys.public_key import parse
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Price, Sku
from gpuaas.infra.http.access import permitted
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit import log
from gpuaas.kit.errors import Conflict, Detail, Refused
from gpuaas.kit.ids import AllocationId, OrgId, ProjectId, SkuId, SshKeyId, UserId, new_id
from gpuaas.ports.policy import PolicyReader

KEYS_MAX = 50
_HOUR = 3600


class Where(Protocol):
    """For whom is asked: the context of a request has it all."""

    @property
    def tx(self) -> Tx: ...
    @property
    def actor(self) -> Actor: ...
    @property
    def org_id(self) -> OrgId: ...
    @property
    def project_id(self) -> ProjectId: ...
    @property
    def policy(self) -> PolicyReader: ...


async def allocation_request(where: Where, wanted: AllocationCreate) -> AllocationView:
    """Reserve what is asked for and have it made ready; or queue it; or say why not."""
    made, offer = await _request(where, wanted)
    # It has cost nothing yet: what is known of its money was asked before the organisation's others waited.
    return view(await allocations.allocation_show(where.tx, made.id), Money(runway_seconds=offer.lasts_seconds))


async def _request(where: Where, wanted: AllocationCreate) -> tuple[Allocation, Offer]:
    tx = where.tx
    sku, price, isolation = await _offer(where, wanted)
    if price.micros_per_gpu_hour > 0:
        await standing.refusal(tx, where.org_id, price.currency)
        await budgets.refusal(tx, where.project_id, price.currency)
    keys, gpus = await _keys(where, wanted), wanted.gpu_count * wanted.node_count
    offer = await money.require(tx, where.policy, where.org_id, where.project_id, price, gpus)
    # Last, since the organisation's others wait from here on.
    await quotas.quota_check(tx, where.policy, where.org_id, where.project_id, sku, gpus)
    waiting = await queue.somebody_waits(tx, sku.id)
    allocation_id = AllocationId(new_id())
    allocation = await allocations.allocation_insert(
        tx,
        NewAllocation(
            id=allocation_id,
            org_id=where.org_id,
            project_id=where.project_id,
            name=wanted.name or f"{sku.name[:50]}-{allocation_id.hex[-8:]}",
            sku_id=sku.id,
            gpu_count=wanted.gpu_count,
            node_count=wanted.node_count,
            isolation=isolation,
            price_id=price.id,
            tags=list(wanted.tags),
            requested_by=where.actor.email or where.actor.name,
            requested_by_id=where.actor.id,
            ssh_keys=keys,
            lease_seconds=_lease(where, wanted),
            queue_seconds=where.policy.number("allocations.queue_hours", where.org_id, where.project_id) * _HOUR,
            correlation_id=log.correlation_id.get(),
        ),
    )
    ask = placement.Ask(sku=sku, gpu_count=wanted.gpu_count, node_count=wanted.node_count)
    alive = where.policy.number("nodes.lease_seconds")
    placed = None if waiting else await placement.place(tx, allocation.id, where.org_id, ask, lease_seconds=alive)
    _told(tx, allocation, queued=placed is None)
    if placed is not None:
        return await allocations.allocation_placed(tx, allocation, placed), offer
    if wanted.if_full is IfFull.REFUSE:
        why = (
            "Others wait for this SKU." if waiting else (await placement.why_not(tx, ask, lease_seconds=alive)).summary
        )
        raise Conflict(Code.CAPACITY_MISSING, f"{why} Ask to wait for it: --queue, or if_full=queue.")
    return await _queued(tx, allocation), offer


async def allocation_extend(where: Where, allocation_id: AllocationId, *, hours: int | None) -> Allocation:
    """Let it last longer, counted from now."""
    allocation = await allocations.require_in(where.tx, where.project_id, allocation_id)
    lifetime = where.policy.number("allocations.lifetime_hours_max", where.org_id, where.project_id)
    seconds = None if hours is None else lease_seconds(asked_hours=hours, lease_hours=hours, lifetime_hours=lifetime)
    return await allocations.allocation_renew(where.tx, allocation.id, seconds=seconds)


async def allocation_view(tx: Tx, allocation_id: AllocationId) -> AllocationView:
    shown = await allocations.allocation_show(tx, allocation_id)
    return view(shown, await money.money_of_one(tx, shown))


async def allocation_detail(where: Where, sealer: FieldSealer, allocation_id: AllocationId) -> AllocationDetail:
    """All there is to see of one. How to log in is for those who may use it, not for everybody who may look."""
    tx = where.tx
    allocation = await allocations.require_in(tx, where.project_id, allocation_id)
    gpus = await allocations.gpus_of(tx, allocation_id)
    names = {gpu.node_id: gpu.node_name for gpu in gpus}
    may_use = permitted(where.actor, P.ALLOCATIONS_MANAGE, where.org_id, where.project_id)
    usable = allocation.state is AllocationState.ACTIVE and may_use
    accounts = await accounts_of(tx, sealer, allocation) if usable else []
    waits = allocation.state is AllocationState.REQUESTED
    shown = await allocations.allocation_show(tx, allocation_id)
    return AllocationDetail(
        **fields(shown, await money.money_of_one(tx, shown)),
        gpus=[gpu_view(gpu) for gpu in gpus],
        connections=[connection_view(account, names.get(account.node_id, "")) for account in accounts],
        queue=await queue.place_of(tx, where.policy, allocation) if waits else None,
        certificate_ids=[found.id for found in await certificates.of_allocation(tx, allocation_id)],
    )


async def allocation_estimate(where: Where, wanted: AllocationAsk) -> EstimateView:
    """What it would cost and whether it would fit now; nothing is reserved."""
    sku, price, _ = await _offer(where, wanted)
    ask = placement.Ask(sku=sku, gpu_count=wanted.gpu_count, node_count=wanted.node_count)
    alive = where.policy.number("nodes.lease_seconds")
    waiting = await queue.somebody_waits(where.tx, sku.id)
    choice = await placement.whether(where.tx, ask, lease_seconds=alive)
    gpus, hours = wanted.gpu_count * wanted.node_count, _lease(where, wanted) // _HOUR
    offer = await money.offer(where.tx, where.policy, where.org_id, where.project_id, price, gpus)
    fits = choice is not None and not waiting
    if choice is not None:
        summary = choice.summary if not waiting else f"Others wait for {sku.name}: this would be queued."
    else:
        summary = (await placement.why_not(where.tx, ask, lease_seconds=alive)).summary
    return EstimateView(
        currency=price.currency,
        micros_per_hour=offer.micros_per_hour,
        micros_for_lease=offer.micros_per_hour * hours,
        lease_hours=hours,
        hold_micros=offer.hold_micros,
        hold_minutes=offer.hold_minutes,
        available_micros=offer.available_micros,
        affordable=offer.affordable,
        runway_seconds=offer.runway_seconds,
        fits_now=fits,
        summary=summary,
        queue=None if fits else await queue.place_at_the_end(where.tx, where.policy, where.org_id, ask),
        quota_left=await quotas.quota_left(where.tx, where.policy, where.org_id, where.project_id, sku),
    )


async def _offer(where: Where, wanted: AllocationAsk) -> tuple[Sku, Price, Isolation]:
    sku = await inventory.sku_get(where.tx, SkuId(wanted.sku_id))
    org_id, project_id = where.org_id, where.project_id
    isolation = Isolation(where.policy.text("allocations.isolation", org_id, project_id))
    whole = where.policy.flag("allocations.whole_node_only", org_id, project_id)
    check_ask(sku, gpu_count=wanted.gpu_count, whole_node_only=whole, isolation=isolation)
    price = (await inventory.prices_now(where.tx, [sku.id])).get(sku.id)
    if price is None:
        raise Refused(Code.ALLOCATION_REFUSED, f"{sku.name} has no price yet. Ask its operator.")
    return sku, price, isolation


def _lease(where: Where, wanted: AllocationAsk) -> int:
    return lease_seconds(
        asked_hours=wanted.lease_hours,
        lease_hours=where.policy.number("allocations.lease_hours", where.org_id, where.project_id),
        lifetime_hours=where.policy.number("allocations.lifetime_hours_max", where.org_id, where.project_id),
    )


async def _keys(where: Where, wanted: AllocationCreate) -> list[str]:
    """The lines for authorized_keys, without comments: of the user's own keys and those sent along."""
    lines = {parse(text).line: None for text in wanted.ssh_keys}
    if where.actor.kind is ActorKind.USER and where.actor.id is not None and wanted.ssh_key_ids != []:
        own = {
            key.id: key.public_key
            for key in await ssh_keys.list_of_user(where.tx, UserId(where.actor.id), after=NIL, limit=500)
        }
        unknown = [key_id for key_id in wanted.ssh_key_ids or () if key_id not in own]
        if unknown:
            raise Refused(
                Code.SSH_KEY_MISSING, "You have no such SSH key.", details=[Detail("ssh_key_ids", str(unknown[0]))]
            )
        chosen = own if wanted.ssh_key_ids is None else {SshKeyId(i): own[SshKeyId(i)] for i in wanted.ssh_key_ids}
        lines |= {parse(text).line: None for text in chosen.values()}
    elif wanted.ssh_key_ids:
        raise Refused(Code.SSH_KEY_MISSING, "A service account has no SSH keys of its own: send them in ssh_keys.")
    if not lines:
        raise Refused(
            Code.SSH_KEY_REQUIRED,
            "Without an SSH key nobody could log in. Add one to your account (`gpuaas keys add`), or send ssh_keys.",
        )
    if len(lines) > KEYS_MAX:
        raise Conflict(
            Code.SSH_KEY_LIMIT,
            f"At most {KEYS_MAX} SSH keys on an allocation.",
            details=[Detail("ssh_key_ids", "choose some")],
        )
    return list(lines)


async def _queued(tx: Tx, allocation: Allocation) -> Allocation:
    await timeline_add(tx, allocation, "queued", "nothing that fits is free: it waits in the queue")
    tx.hint(allocations.QUEUE_HINT)
    return allocation


def _told(tx: Tx, allocation: Allocation, *, queued: bool) -> None:
    tx.emit(
        AllocationRequested(
            allocation_id=allocation.id,
            project_id=allocation.project_id,
            sku_id=allocation.sku_id,
            gpus=allocation.gpus,
            queued=queued,
        ),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
