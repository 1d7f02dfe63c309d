"""The audit log's operations: an organisation's own entries, and all of them for the platform."""

from typing import Any

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.audit import (
    AuditEntryDetail,
    AuditEntryView,
    AuditFilter,
    AuditQuery,
    CheckpointView,
    PlatformAuditFilter,
    PlatformAuditQuery,
    SealView,
)
from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.contracts.permissions import P
from gpuaas.domains.audit import service
from gpuaas.domains.audit.addresses import shown
from gpuaas.domains.audit.chain import FIELDS
from gpuaas.domains.audit.export import csv_header, csv_lines, json_lines
from gpuaas.domains.audit.models import Checkpoint, SealedEntry
from gpuaas.infra.http.context import OrgContext, PlatformContext, UserContext
from gpuaas.infra.http.operation import Lane, Stream, operation
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import PublicKey, SigningKeys
from gpuaas.kit import clock
from gpuaas.kit.errors import Denied
from gpuaas.kit.ids import AuditId, OrgId
from gpuaas.kit.paging import CursorRefused

FULL = "full"
CSV, JSONL = "text/csv; charset=utf-8", "application/jsonl"


@operation("GET", "/orgs/{org_id}/audit", permission=P.AUDIT_READ, lane=Lane.DEFAULT)
async def audit_list(cx: OrgContext, query: AuditQuery) -> Page[AuditEntryView]:
    """List who did what in the organisation, newest first."""
    return await _page(cx, query, cx.org_id, cx.policy.text("audit.client_ip_shown", cx.org_id))


@operation(
    "GET",
    "/orgs/{org_id}/audit/{audit_id}",
    permission=P.AUDIT_READ,
    lane=Lane.DEFAULT,
    errors=(Code.AUDIT_ENTRY_MISSING,),
)
async def audit_get(cx: OrgContext, audit_id: AuditId) -> AuditEntryDetail:
    """Read one audit entry with its link in the chain."""
    entry = await service.audit_get(cx.tx, audit_id, cx.org_id)
    return _detail(entry, cx.policy.text("audit.client_ip_shown", cx.org_id))


@operation(
    "GET",
    "/orgs/{org_id}/audit-export/csv",
    permission=P.AUDIT_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="text/csv",
    errors=(Code.AUDIT_EXPORT_OFF,),
)
async def audit_export_csv(cx: OrgContext, query: AuditFilter) -> Stream:
    """Export the organisation's audit log as CSV, oldest first."""
    return _org_export(cx, query, "csv")


@operation(
    "GET",
    "/orgs/{org_id}/audit-export/jsonl",
    permission=P.AUDIT_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="application/jsonl",
    errors=(Code.AUDIT_EXPORT_OFF,),
)
async def audit_export_jsonl(cx: OrgContext, query: AuditFilter) -> Stream:
    """Export the organisation's audit log as JSON lines, oldest first."""
    return _org_export(cx, query, "jsonl")


@operation("GET", "/audit", permission=P.AUDIT_READ, lane=Lane.DEFAULT)
async def audit_platform_list(cx: PlatformContext, query: PlatformAuditQuery) -> Page[AuditEntryView]:
    """List who did what, anywhere, newest first."""
    return await _page(cx, query, _org(query), FULL)


@operation("GET", "/audit/{audit_id}", permission=P.AUDIT_READ, lane=Lane.DEFAULT, errors=(Code.AUDIT_ENTRY_MISSING,))
async def audit_platform_get(cx: PlatformContext, audit_id: AuditId) -> AuditEntryDetail:
    """Read any audit entry with its link in the chain."""
    return _detail(await service.audit_get(cx.tx, audit_id, None), FULL)


@operation(
    "GET",
    "/audit-export/csv",
    permission=P.AUDIT_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="text/csv",
)
async def audit_platform_export_csv(cx: PlatformContext, query: PlatformAuditFilter) -> Stream:
    """Export the audit log of all organisations, or of one, as CSV, oldest first."""
    return _export(cx, query, Sight(PLATFORM), _org(query), "csv", FULL)


@operation(
    "GET",
    "/audit-export/jsonl",
    permission=P.AUDIT_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="application/jsonl",
)
async def audit_platform_export_jsonl(cx: PlatformContext, query: PlatformAuditFilter) -> Stream:
    """Export the audit log of all organisations, or of one, as JSON lines, oldest first."""
    return _export(cx, query, Sight(PLATFORM), _org(query), "jsonl", FULL)


@operation("GET", "/audit-checkpoints", permission=P.AUDIT_READ, lane=Lane.DEFAULT)
async def audit_checkpoint_list(cx: PlatformContext, query: PageQuery) -> Page[CheckpointView]:
    """List the signed heads of the audit chain, newest first: kept elsewhere, they prove the log was not rewritten."""
    found = await service.checkpoint_list(
        cx.tx, cx.parts.get(SigningKeys), before=_number(cx, query), limit=query.limit + 1
    )
    items = [_checkpoint(*pair) for pair in found[: query.limit]]
    return Page(items=items, next_cursor=cx.next_cursor(items[-1].seq) if len(found) > query.limit else None)


async def _page(
    cx: UserContext, query: AuditQuery | PlatformAuditQuery, org_id: OrgId | None, ip_shown: str
) -> Page[AuditEntryView]:
    position = cx.cursor_position(query.cursor)
    before = None if position is None else AuditId(msgspec.convert(position[0], AuditId))
    found = await service.audit_list(
        cx.tx, service.wanted_from(query, org_id=org_id), before=before, limit=query.limit + 1
    )
    items = [_view(entry, ip_shown) for entry in found[: query.limit]]
    return Page(items=items, next_cursor=cx.next_cursor(items[-1].id) if len(found) > query.limit else None)


def _org_export(cx: OrgContext, query: AuditFilter, form: str) -> Stream:
    if not cx.policy.flag("audit.export_allowed", cx.org_id):
        raise Denied(Code.AUDIT_EXPORT_OFF, "The policy audit.export_allowed is off here. Ask who may change it.")
    ip_shown = cx.policy.text("audit.client_ip_shown", cx.org_id)
    return _export(cx, query, Sight(cx.org_id), cx.org_id, form, ip_shown)


def _export(
    cx: UserContext, query: AuditFilter, sight: Sight, org_id: OrgId | None, form: str, ip_shown: str
) -> Stream:
    write, header = (csv_lines, csv_header()) if form == "csv" else (json_lines, b"")

    def lines(entries: list[SealedEntry]) -> bytes:
        return write(msgspec.structs.replace(e, client_ip=shown(e.client_ip, ip_shown)) for e in entries)

    wanted = service.wanted_from(query, org_id=org_id)
    chunks = service.audit_export(cx.db, sight, wanted, lines, header=header)
    name = f"audit-{org_id or 'all'}-{clock.now():%Y%m%dT%H%M%SZ}.{form}"
    return Stream(chunks, CSV if form == "csv" else JSONL, name)


def _org(query: PlatformAuditFilter | PlatformAuditQuery) -> OrgId | None:
    return None if query.org_id is None else OrgId(query.org_id)


def _number(cx: UserContext, query: PageQuery) -> int | None:
    position = cx.cursor_position(query.cursor)
    try:
        return None if position is None else int(position[0])
    except ValueError as error:
        raise CursorRefused from error


def _fields(entry: SealedEntry, ip_shown: str) -> dict[str, Any]:
    return {field: getattr(entry, field) for field in FIELDS} | {
        "client_ip": shown(entry.client_ip, ip_shown),
        "details": msgspec.Raw(entry.details.encode()),
    }


def _view(entry: SealedEntry, ip_shown: str) -> AuditEntryView:
    return AuditEntryView(**_fields(entry, ip_shown))


def _detail(entry: SealedEntry, ip_shown: str) -> AuditEntryDetail:
    seal = None
    if entry.seq is not None:
        seal = SealView(
            seq=entry.seq,
            version=entry.version or 0,
            prev_hash=(entry.prev_hash or b"").hex(),
            hash=(entry.hash or b"").hex(),
        )
    return AuditEntryDetail(**_fields(entry, ip_shown), seal=seal)


def _checkpoint(found: Checkpoint, key: PublicKey | None) -> CheckpointView:
    return CheckpointView(
        seq=found.seq,
        hash=found.hash.hex(),
        at=found.at,
        key_id=found.key_id,
        signature=found.signature.hex(),
        public_key=None if key is None else msgspec.json.encode(key.jwk).decode(),
    )
