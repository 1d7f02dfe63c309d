"""The verbs of one-click links.

Always holds: looking changes nothing; a link does its one thing once, for the person, organisation and thing it was
made for, as long as he may still do it; the signature is looked at before the database is."""

from collections.abc import Mapping
from http import HTTPStatus

from gpuaas.contracts.actor import Actor
from gpuaas.domains.identity.authority import service as authority
from gpuaas.domains.notifications.extending.service import EXTEND
from gpuaas.domains.notifications.links import store
from gpuaas.domains.notifications.links.models import Action, Link, Page, Visit
from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.domains.notifications.preferences.service import MUTE
from gpuaas.domains.notifications.topping_up.service import TOP_UP
from gpuaas.infra.http.access import permitted
from gpuaas.infra.http.context import Context
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx

ACTIONS: Mapping[str, Action] = {action.name: action for action in (EXTEND, MUTE, TOP_UP)}
NewLink = store.NewLink
links_add = store.insert
links_prune = store.prune

_FOREIGN = Page(
    title="This link does not work",
    text="It is not one of ours, or it was cut off on its way. Copy all of it from the email.",
    status=HTTPStatus.NOT_FOUND,
)
_EXPIRED = Page(
    title="This link has expired",
    text="Links work for a while only. Log in to do the same, or wait for the next email.",
    status=HTTPStatus.GONE,
)
_DENIED = Page(
    title="This is not yours to do any more",
    text="You may not do this in the organisation any more. Ask one of its owners.",
    status=HTTPStatus.FORBIDDEN,
)


async def link_look(cx: Context, token: str) -> Page:
    """What a link would do. Changes nothing, however often it is looked at, and by whomever."""
    async with cx.db.read(Sight(PLATFORM)) as tx:
        found = await _find(cx, tx, token, lock=False)
        if isinstance(found, Page):
            return found
        return await _preview(*found)


async def link_prepare(cx: Context, token: str) -> object:
    """What needs the network, before the link is used."""
    async with cx.db.read(Sight(PLATFORM)) as tx:
        found = await _find(cx, tx, token, lock=False)
        if isinstance(found, Page) or found[0].prepare is None or not (await _preview(*found)).button:
            return None
    return await found[0].prepare(found[1])


async def link_use(cx: Context, token: str) -> Page:
    """Do what it is for, once."""
    tx = cx.tx
    await tx.enter_platform()
    found = await _find(cx, tx, token, lock=True)
    if isinstance(found, Page):
        return found
    action, visit = found
    preview = await _preview(action, visit)
    if not preview.button or (action.prepare is not None and cx.prepared is None):
        return preview  # what was allowed a moment ago, and is not now, is shown as it is
    await tx.enter_org(visit.org_id)
    await tx.act_as(visit.link.user_id)
    tx.actor_name = f"user:{visit.actor.subject}"
    outcome = await action.act(visit, cx.prepared)
    await store.use(tx, visit.link.id, outcome.title)
    return Page(title=outcome.title, text=outcome.text, redirect=outcome.redirect, done_by=visit.actor, link=visit.link)


async def _find(cx: Context, tx: Tx, token: str, *, lock: bool) -> tuple[Action, Visit] | Page:
    link_id = cx.parts.get(LinkSigner).read(token)
    link = None if link_id is None else await store.find(tx, link_id, lock=lock)
    action = None if link is None else ACTIONS.get(link.action)
    if link is None or action is None:
        return _FOREIGN
    if link.used_at is not None and not action.again:
        return _used(link)
    if link.expired:
        return _EXPIRED
    actor = await authority.user_actor(tx, link.user_id)
    if actor is None:
        return _DENIED
    return action, Visit(tx=tx, link=link, actor=actor, org_id=link.org_id, policy=cx.policy, parts=cx.parts)


async def _preview(action: Action, visit: Visit) -> Page:
    seen = await action.describe(visit)
    if not _may(action, visit.actor, visit.link, seen.project_id):
        return _DENIED
    return Page(
        title=seen.title,
        text=seen.text,
        status=HTTPStatus.OK if seen.button else HTTPStatus.GONE,
        button=seen.button,
        facts=[*seen.facts, ("For", visit.actor.email or visit.actor.name)],
        leads_out=action.leads_out,
    )


def _may(action: Action, actor: Actor, link: Link, project_id: object) -> bool:
    return permitted(actor, action.permission, link.org_id, project_id)  # type: ignore[arg-type] # an id, or none


def _used(link: Link) -> Page:
    return Page(
        title="This link was used already",
        text=f"A link works once, and this one has done its work: {link.outcome or 'done'}.",
        status=HTTPStatus.GONE,
    )
