"""What happens by itself as time passes: sessions nobody paid expire, banks decide."""

import asyncio
from collections.abc import Callable

from gpuaas.kit import log
from gpuaas.processes.demo_payments.book import Book
from gpuaas.processes.demo_payments.checkout import session_settle, sessions_overdue

LOOK_SECONDS = 0.5


async def keep_up(book: Book, wake: Callable[[], None]) -> None:
    """Until cancelled."""
    while True:
        try:
            catch_up(book, wake)
        except OSError as error:
            log.get_logger().error("cannot write", reason=str(error))
        await asyncio.sleep(LOOK_SECONDS)


def catch_up(book: Book, wake: Callable[[], None]) -> None:
    for due in book.due():
        book.write(session_settle(book, due))
        wake()
    overdue = sessions_overdue(book)
    if overdue.put:
        book.write(overdue)
        wake()
