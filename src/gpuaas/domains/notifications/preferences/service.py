"""The verbs of preferences. Always holds: what is mandatory stays so, whatever was wanted before it was."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.notifications import EmailWhen, PreferenceView
from gpuaas.contracts.permissions import P
from gpuaas.domains.notifications.catalogue import KINDS, Kind
from gpuaas.domains.notifications.links.models import Action, Outcome, Preview, Visit
from gpuaas.domains.notifications.preferences import store
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Missing, Refused


async def preference_list(tx: Tx, user_id: UUID) -> list[PreferenceView]:
    """Every kind there is, with what the user wants of it."""
    wanted = {one.kind: one.email for one in await store.of_user(tx, user_id)}
    return [
        PreferenceView(
            kind=kind.name,
            about=kind.about,
            severity=kind.severity,
            email=EmailWhen.ALWAYS if kind.mandatory else wanted.get(kind.name, kind.email),
            default=kind.email,
            mandatory=kind.mandatory,
        )
        for kind in KINDS.values()
    ]


async def preference_set(tx: Tx, user_id: UUID, kind_name: str, email: EmailWhen | None) -> None:
    kind = KINDS.get(kind_name)
    if kind is None:
        raise Missing(Code.NOTIFICATION_KIND_MISSING, f"There is no kind of notification called {kind_name}.")
    if kind.mandatory and email not in (None, EmailWhen.ALWAYS):
        raise Refused(
            Code.NOTIFICATION_MANDATORY,
            f"{kind_name} is always sent by email: what it warns of costs you running work.",
        )
    await store.write(tx, user_id, kind_name, email)


async def wanted_of(tx: Tx, kind: Kind, user_ids: Sequence[UUID]) -> dict[UUID, EmailWhen]:
    """What those have said who said something; of what is mandatory there is nothing to say."""
    if kind.mandatory:
        return {}
    return {one.user_id: one.email for one in await store.of_kind(tx, kind.name, user_ids)}


# the link that switches email of a kind off --------------------------------------------------------------------------
async def mute_describe(visit: Visit) -> Preview:
    kind = KINDS.get(visit.link.detail)
    if kind is None or kind.mandatory:
        return Preview(title="There is nothing to switch off", text="Email of this kind cannot be switched off.")
    return Preview(
        title="No more email like this?",
        text=f"You will get no email of this kind any more: {kind.about} You can still read of it here.",
        button="No more email",
        facts=[("Kind", kind.name)],
    )


async def mute_act(visit: Visit, prepared: object) -> Outcome:
    await store.write(visit.tx, visit.link.user_id, visit.link.detail, EmailWhen.NEVER)
    return Outcome(
        title="No more email of this kind",
        text=f"To have it again: gpuaas notifications preferences {visit.link.detail} always",
    )


MUTE = Action(name="notifications.mute", permission=P.SELF, describe=mute_describe, act=mute_act)
