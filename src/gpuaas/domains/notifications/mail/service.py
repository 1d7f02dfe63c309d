"""The verbs of mail: sending what is queued, and looking after what was not sent.

Always holds: no transaction is open while the server is spoken with: emails are claimed for a while, sent, and marked.
Whoever dies between sending and marking has it sent again, once his claim is over, with the same Message-ID: at least
once, and recognisable. Nothing is dropped silently: what is not sent ends as failed, with the reason."""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta

from prometheus_client import Counter

from gpuaas.domains.notifications.mail import store
from gpuaas.domains.notifications.mail.models import Email
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock, log
from gpuaas.ports.mail import MailAway, MailRefused, MailServer, MailSession

BY = "system:notifications.mail"
LANES = 4
"""Conversations with the server at once."""
PER_LANE = 5
LEASE = timedelta(minutes=5)
"""Longer than a lane can take: five messages of at most 30 seconds, and their connections."""
RUN_SECONDS = 60.0
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=15)
_EVERYTHING = Sight(PLATFORM)
OUTCOMES = Counter("gpuaas_emails", "Attempts to send email, by what became of them.", ["outcome"])
Render = Callable[[Email], bytes]

email_list = store.list_all
email_retry = store.retry
emails_waiting = store.waiting
emails_prune = store.prune
emails_left = store.left


async def emails_follow(db: Database, server: MailServer, render: Render) -> None:
    """Give up what is too old, then send what is due; without a server, say so in each row."""
    async with db.transaction(_EVERYTHING, BY) as tx:
        await store.expire(tx)
        if not server.configured:
            parked = await store.park(tx)
            if parked:
                log.get_logger().warning("no mail server is set: emails wait", emails=parked)
            return
        await store.unpark(tx)
    until = clock.monotonic() + RUN_SECONDS
    while clock.monotonic() < until:
        async with db.transaction(_EVERYTHING, BY) as tx:
            batch = await store.claim(tx, limit=LANES * PER_LANE, lease=LEASE)
        if not batch:
            return
        lanes = [batch[first::LANES] for first in range(LANES) if batch[first::LANES]]
        if not any(await asyncio.gather(*(_lane(db, server, render, lane) for lane in lanes))):
            return  # nobody talks to us: the next turn is soon enough


async def _lane(db: Database, server: MailServer, render: Render, emails: list[Email]) -> bool:
    """One after the other, over one conversation, or as many as it takes. False: there was none to be had."""
    waiting = list(emails)
    while waiting:
        try:
            async with server.session() as session:
                while waiting:
                    await _one(db, session, render, waiting[0])
                    waiting.pop(0)
        except _Broken:
            waiting.pop(0)
        except MailAway as away:
            for email in waiting:
                await _postpone(db, email, str(away))
            return False
    return True


class _Broken(Exception):
    """The conversation ended with this email; the others have one of their own."""


async def _one(db: Database, session: MailSession, render: Render, email: Email) -> None:
    try:
        await session.send(email.to_address, render(email))
    except MailRefused as refused:
        OUTCOMES.labels("refused").inc()
        log.get_logger().warning("email refused", email_id=str(email.id), kind=email.kind, reason=str(refused))
        async with db.transaction(_EVERYTHING, BY) as tx:
            await store.failed(tx, email, str(refused))
    except MailAway as away:
        await _postpone(db, email, str(away))
        raise _Broken from away
    else:
        OUTCOMES.labels("sent").inc()
        async with db.transaction(_EVERYTHING, BY) as tx:
            await store.sent(tx, email)


async def _postpone(db: Database, email: Email, reason: str) -> None:
    OUTCOMES.labels("postponed").inc()
    log.get_logger().warning(
        "email postponed", email_id=str(email.id), kind=email.kind, attempts=email.attempts, reason=reason
    )
    async with db.transaction(_EVERYTHING, BY) as tx:
        await store.postpone(tx, email, wait_after(email.attempts, random.random()), reason)  # noqa: S311 # only spreads tries


def wait_after(attempts: int, spread: float) -> timedelta:
    """Twice as long each time, up to a quarter of an hour; a little spread, so that not all come at once."""
    wait: timedelta = min(FIRST_WAIT * 2 ** min(attempts - 1, 10), LONGEST_WAIT)
    return wait * (0.8 + 0.4 * spread)
