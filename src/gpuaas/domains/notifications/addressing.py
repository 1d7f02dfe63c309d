"""Who of those who are told gets an email: what he wants, what the kind says, and whether there is an address."""

import re
from collections.abc import Mapping, Sequence
from uuid import UUID

from gpuaas.contracts.http.notifications import EmailWhen
from gpuaas.domains.identity.members.models import Recipient
from gpuaas.domains.notifications.catalogue import Audience, Kind

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+\Z")
MAX_ADDRESS = 254


def mailed(
    kind: Kind, people: Sequence[Recipient], wanted: Mapping[UUID, EmailWhen], asked_by: UUID | None
) -> frozenset[UUID]:
    """What concerns one allocation goes by email to whoever asked for it; to the owners, if he cannot be told."""
    asker_told = any(one.id == asked_by and not unusable(one) for one in people)
    return frozenset(
        one.id for one in people if _wants(kind, one, wanted.get(one.id), besides=asker_told and one.id != asked_by)
    )


def _wants(kind: Kind, person: Recipient, said: EmailWhen | None, *, besides: bool) -> bool:
    if kind.mandatory:
        return True
    if said is None and kind.audience is Audience.ALLOCATION and besides:
        return False
    when = said or kind.email
    return when is EmailWhen.ALWAYS or (when is EmailWhen.OFFLINE and not person.seen)


def unusable(person: Recipient) -> str:
    """Why no email can be sent to him; empty: it can."""
    if not person.email:
        return "he has no address"
    if len(person.email) > MAX_ADDRESS or not _ADDRESS.match(person.email):
        return "his address is not one mail can be sent to"
    return "" if person.email_verified else "his identity provider has not verified his address"
