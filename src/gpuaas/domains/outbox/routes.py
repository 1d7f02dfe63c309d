"""Operations on dead letters. Nothing is fixed by hand in SQL."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.outbox import (
    DeadEvent,
    DeadLetterDetail,
    DeadLetterDiscard,
    DeadLetterQuery,
    DeadLetterView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.outbox import service
from gpuaas.domains.outbox.models import DeadLetter, OutboxEvent
from gpuaas.domains.outbox.states import DeadLetterState
from gpuaas.infra.http import listing
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit import log
from gpuaas.kit.ids import DeadLetterId

_MOVES = (Code.DEAD_LETTER_MISSING, Code.STATE_MOVE_REFUSED)


@operation("GET", "/dead-letters", permission=P.PLATFORM_READ, lane=Lane.DEFAULT)
async def dead_letter_list(cx: PlatformContext, query: DeadLetterQuery) -> Page[DeadLetterView]:
    """List events that a consumer could not handle, oldest first."""
    rows = await service.dead_letter_list(
        cx.tx,
        state=None if query.state is None else DeadLetterState(query.state),
        consumer=query.consumer,
        after=listing.after(cx, query),
        limit=query.limit + 1,
    )
    return listing.page(cx, query, rows, view)


@operation(
    "GET",
    "/dead-letters/{dead_letter_id}",
    permission=P.PLATFORM_READ,
    lane=Lane.DEFAULT,
    errors=(Code.DEAD_LETTER_MISSING,),
)
async def dead_letter_get(cx: PlatformContext, dead_letter_id: DeadLetterId) -> DeadLetterDetail:
    """Inspect a dead letter: why it failed, how often, and the event itself."""
    return detail(*await service.dead_letter_get(cx.tx, dead_letter_id))


@operation(
    "POST",
    "/dead-letters/{dead_letter_id}/replay",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="dead_letter.replay",
    status=202,
    errors=_MOVES,
)
async def dead_letter_replay(cx: PlatformContext, dead_letter_id: DeadLetterId) -> DeadLetterView:
    """Have the event delivered to its consumer once more, after the cause was fixed."""
    return view(await service.dead_letter_replay(cx.tx, dead_letter_id))


@operation(
    "POST",
    "/dead-letters/{dead_letter_id}/discard",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="dead_letter.discard",
    errors=_MOVES,
)
async def dead_letter_discard(
    cx: PlatformContext, dead_letter_id: DeadLetterId, wanted: DeadLetterDiscard
) -> DeadLetterView:
    """Decide, with a reason, that this consumer never handles the event."""
    return view(await service.dead_letter_discard(cx.tx, dead_letter_id, reason=wanted.reason))


def view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(**msgspec.structs.asdict(letter))


def detail(letter: DeadLetter, event: OutboxEvent | None) -> DeadLetterDetail:
    return DeadLetterDetail(
        **msgspec.structs.asdict(letter),
        event=None
        if event is None
        else DeadEvent(
            occurred_at=event.created_at,
            stream=event.stream,
            version=event.version,
            actor=event.actor,
            subject_id=event.subject_id,
            payload=log.scrub(msgspec.json.decode(event.payload)),
        ),
    )
