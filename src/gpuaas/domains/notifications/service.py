"""The verbs of notifications.

Always holds: everybody an event is for is told once, in the event's one transaction, with his email queued and his
links made; who reads, reads his own."""

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.actor import system
from gpuaas.contracts.events.base import Envelope, Event
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.identity.members import service as members
from gpuaas.domains.identity.members.models import Recipient
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.projects import service as projects
from gpuaas.domains.notifications import store
from gpuaas.domains.notifications.addressing import mailed, unusable
from gpuaas.domains.notifications.catalogue import AUDIENCE_ROLES, Kind, kind_of
from gpuaas.domains.notifications.hinting import subject_of
from gpuaas.domains.notifications.links import service as links
from gpuaas.domains.notifications.mail import service as mail
from gpuaas.domains.notifications.mail.models import Content
from gpuaas.domains.notifications.models import Told
from gpuaas.domains.notifications.plain import plain
from gpuaas.domains.notifications.preferences import service as preferences
from gpuaas.domains.notifications.words import Facts, Words
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import LinkId, NotificationId, OrgId, ProjectId, floor_id, new_id
from gpuaas.ports.policy import PolicyReader

MUTE = "notifications.mute"
MOST_TOLD = 10_000
COUNTED = 1_000
QUIET = timedelta(hours=1)
_SYSTEM = system("notifications")

notification_list = store.list_of
notification_read = store.read
notifications_read_all = store.read_all


async def unread_count(tx: Tx, user_id: UUID) -> int:
    """Counting stops at a thousand."""
    return await store.count(tx, user_id, at_most=COUNTED)


async def notify(tx: Tx, policy: PolicyReader, event: Event, envelope: Envelope, *, fresh: bool) -> None:
    """Tell everybody an event is for. What is not fresh any more is told, but not mailed."""
    if envelope.org_id is None:
        return
    await tx.enter_platform()
    try:
        facts = await _facts(tx, OrgId(envelope.org_id), event)
    except Missing:
        return  # the organisation, or what it is about, is gone: there is nobody to tell, or nothing to tell of
    kind = kind_of(event, facts)
    if kind is None:
        return
    people = await members.recipients(
        tx,
        OrgId(envelope.org_id),
        AUDIENCE_ROLES[kind.audience],
        also=facts.asked_by_id,
        seen_minutes=policy.number("notifications.offline_minutes"),
        limit=MOST_TOLD,
    )
    if not people:
        return
    wanted = await preferences.wanted_of(tx, kind, [one.id for one in people])
    by_email = mailed(kind, people, wanted, facts.asked_by_id) if fresh else frozenset()
    if kind.flaps and by_email:
        since = floor_id(clock.now() - QUIET)
        by_email -= await store.mailed_since(tx, list(by_email), since, kind, envelope.subject_id)
    words = kind.says(event, facts)
    told = [_told(kind, words, one, by_email=one.id in by_email) for one in people]
    made = _links(kind, told, detail=plain(getattr(event, "currency", ""), 3))
    hours = policy.number("notifications.link_hours")
    await links.links_add(tx, envelope.org_id, envelope.subject_id, made, hours=hours)
    await store.tell(tx, kind, words, envelope, told)
    for one in told:
        tx.hint(subject_of(one.user_id))


async def notifications_prune(tx: Tx, *, before: UUID, limit: int) -> int:
    """The most that was forgotten of anything."""
    return max(
        await store.prune(tx, before=before, limit=limit),
        await mail.emails_prune(tx, before=before, limit=limit),
        await links.links_prune(tx, before=before, limit=limit),
    )


async def _facts(tx: Tx, org_id: OrgId, event: Event) -> Facts:
    org = await orgs.org_get(tx, _SYSTEM, org_id)
    facts = Facts(org=plain(org.title or org.name))
    project_id, allocation_id = getattr(event, "project_id", None), getattr(event, "allocation_id", None)
    if project_id is not None:
        with suppress(Missing):  # deleted meanwhile: what is told can do without its name
            project = await projects.project_get(tx, ProjectId(project_id))
            facts = msgspec.structs.replace(facts, project=plain(project.title or project.name))
    if allocation_id is not None:
        allocation = await allocations.allocation_get(tx, allocation_id)
        facts = msgspec.structs.replace(
            facts,
            allocation=plain(allocation.name),
            gpus=allocation.gpus,
            released_by=allocation.released_by,
            asked_by_id=allocation.requested_by_id,
        )
    return facts


def _told(kind: Kind, words: Words, person: Recipient, *, by_email: bool) -> Told:
    link_id = LinkId(new_id()) if kind.offer is not None else None
    told = Told(notification_id=NotificationId(new_id()), user_id=person.id, link_id=link_id)
    if not by_email:
        return told
    mute_id = None if kind.mandatory else LinkId(new_id())
    content = Content(
        title=words.title,
        severity=kind.severity,
        name=plain(person.name, 120),
        sentences=words.sentences,
        facts=words.facts,
        label=kind.offer.label if kind.offer else "",
        link_id=link_id,
        mute_id=mute_id,
    )
    return msgspec.structs.replace(
        told,
        mute_id=mute_id,
        email_id=new_id(),
        to_address=plain(person.email, 320),
        content=msgspec.json.encode(content).decode(),
        unusable=unusable(person),
    )


def _links(kind: Kind, told: list[Told], *, detail: str) -> list[links.NewLink]:
    offered = [
        links.NewLink(one.link_id, one.user_id, kind.offer.action, detail)
        for one in told
        if one.link_id is not None and kind.offer is not None
    ]
    return offered + [links.NewLink(one.mute_id, one.user_id, MUTE, kind.name) for one in told if one.mute_id]
