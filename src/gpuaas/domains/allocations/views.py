"""Allocations as people see them."""

from datetime import datetime
from typing import Any

from gpuaas.contracts.http.allocations import (
    AllocationView,
    CertificateOfRelease,
    Connection,
    Failure,
    HeldGpu,
    SignedCertificate,
    StopReason,
    TimelineMoment,
)
from gpuaas.domains.allocations.certificates.models import Certificate
from gpuaas.domains.allocations.models import Account, Shown, ShownGpu
from gpuaas.domains.allocations.money.models import Money
from gpuaas.domains.allocations.states import S
from gpuaas.domains.allocations.timeline.models import Moment


def view(found: Shown, money: Money) -> AllocationView:
    return AllocationView(**fields(found, money))


def fields(found: Shown, money: Money) -> dict[str, Any]:
    failure = Failure(code=found.failure_code, reason=found.failure) if found.failure_code else None
    return {
        "id": found.id,
        "org_id": found.org_id,
        "project_id": found.project_id,
        "name": found.name,
        "sku_id": found.sku_id,
        "sku_name": found.sku_name,
        "region": found.region,
        "gpu_model": found.gpu_model,
        "gpu_count": found.gpu_count,
        "node_count": found.node_count,
        "isolation": found.isolation,
        "currency": found.currency,
        "micros_per_hour": found.micros_per_gpu_hour * found.gpu_count * found.node_count,
        "tags": found.tags,
        "requested_by": found.requested_by,
        "state": found.state,
        "state_since": found.state_since,
        "due_at": _ends_by_itself(found),
        "next_action": next_action(found),
        "degraded": found.degraded_since is not None,
        "degraded_reason": found.degraded_reason,
        "created_at": found.created_at,
        "active_at": found.active_at,
        "expires_at": found.expires_at,
        "ends_at": found.ends_at,
        "reclaim_at": found.reclaim_at,
        "stop_reason": StopReason(found.stop_reason) if found.stop_reason else None,
        "released_by": found.released_by,
        "release_reason": found.release_reason,
        "ended_at": found.ended_at,
        "failure": failure,
        "cost_micros": money.cost_micros,
        "usable_seconds": money.usable_seconds,
        "held_micros": money.held_micros,
        "charging": money.charging,
        "not_charged_since": money.paused_since,
        "not_charged_reason": money.paused_reason,
        "runway_seconds": money.runway_seconds,
        "version": found.version,
    }


def _ends_by_itself(found: Shown) -> datetime | None:
    match found.state:
        case S.ACTIVE:
            ends = (found.expires_at, found.reclaim_at)
        case S.STOPPED:
            ends = (found.expires_at, found.due_at)
        case _:
            return found.due_at
    return min((at for at in ends if at is not None), default=None)


def next_action(found: Shown) -> str:
    """What happens by itself next: nothing here waits for ever without saying for whom."""
    match found.state:
        case S.REQUESTED:
            return "it is given GPUs when its turn comes; not in time, it fails"
        case S.PROVISIONING if found.release_requested_at is not None:
            return "what was made ready is taken back, then it fails as cancelled"
        case S.PROVISIONING:
            return "it becomes active when its GPUs pass their health check; not in time, it fails"
        case S.ACTIVE if found.reclaim_at is not None:
            return "it is idle and is released, unless it is used or renewed"
        case S.ACTIVE:
            return "its lease ends and it is released, unless renewed"
        case S.STOPPING:
            return "it is stopped when its nodes have proven that nobody can log in and nothing runs"
        case S.STOPPED if found.stop_reason == StopReason.USER:
            return "it is released with the end of its lease, unless it is started or renewed"
        case S.STOPPED if found.stop_reason == StopReason.BALANCE:
            return "it is started again when there is money, and released if there is none in time"
        case S.STOPPED:
            return "it is released, unless somebody starts it before"
        case S.STARTING:
            return "it becomes active when its GPUs pass their health check; if not, it stays stopped"
        case S.RELEASING:
            return "it is released when its nodes are proven clean; not in time, they are quarantined"
        case S.RELEASE_FAILED:
            return "it is tried again when its node is back; an operator can force it"
        case _:
            return ""


def gpu_view(found: ShownGpu) -> HeldGpu:
    return HeldGpu(
        node_id=found.node_id,
        node_name=found.node_name,
        index=found.gpu_index,
        serial=found.serial,
        model=found.model,
        numa=found.numa,
        healthy=not found.quarantine,
        detail=found.quarantine,
    )


def connection_view(account: Account, node_name: str) -> Connection:
    port = "" if account.port == 22 else f" -p {account.port}"
    return Connection(
        node_name=node_name,
        login=account.login,
        host=account.host,
        port=account.port,
        host_keys=account.host_keys,
        ssh_command=f"ssh{port} {account.login}@{account.host}",
    )


def timeline_view(moments: list[Moment]) -> list[TimelineMoment]:
    following = [moment.at for moment in moments[1:]]
    return [
        TimelineMoment(
            at=moment.at,
            phase=moment.phase,
            detail=moment.detail,
            seconds=round((following[i] - moment.at).total_seconds(), 3) if i < len(following) else None,
            source=moment.source,
            actor=moment.actor,
            correlation_id=moment.correlation_id,
        )
        for i, moment in enumerate(moments)
    ]


def certificate_view(found: Certificate) -> CertificateOfRelease:
    return CertificateOfRelease(
        id=found.id,
        allocation_id=found.allocation_id,
        node_id=found.node_id,
        serials=found.serials,
        key_id=found.key_id,
        issued_at=found.issued_at,
    )


def signed_view(found: Certificate) -> SignedCertificate:
    return SignedCertificate(
        id=found.id,
        allocation_id=found.allocation_id,
        node_id=found.node_id,
        serials=found.serials,
        key_id=found.key_id,
        issued_at=found.issued_at,
        envelope=found.envelope,
    )
