"""The demo's own door, beside the provider's API: POST /control with its key takes one order (`faults.py`) as JSON.

Always holds: without a key that was set there is no such door; its key is not the API's."""

import hmac
from typing import Any

import msgspec

from gpuaas.processes.demo_payments import checkout, reversals
from gpuaas.processes.demo_payments import faults as f
from gpuaas.processes.demo_payments.api import ApiAnswer, Asked
from gpuaas.processes.demo_payments.book import Book, Change, Object
from gpuaas.processes.demo_payments.errors import ProviderError, invalid
from gpuaas.processes.demo_payments.telling import Teller
from gpuaas.processes.demo_payments.upkeep import catch_up

MAX_LATER = 400 * 24 * 3600
MAX_SECONDS = 600


class Door:
    def __init__(self, book: Book, faults: f.Faults, teller: Teller, key: str) -> None:
        self._book = book
        self._faults = faults
        self._teller = teller
        self._key = key.encode()

    async def answer(self, asked: Asked) -> ApiAnswer:
        if not self._key or asked.method != "POST":
            return ApiAnswer(404, invalid("There is nothing here.").body())
        given = asked.headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + self._key):
            return ApiAnswer(401, invalid("This door has a key of its own.").body())
        try:
            order: Any = msgspec.json.decode(asked.body, type=f.Order)
            done = await self._do(order)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return ApiAnswer(400, invalid(str(error)).body())
        except ProviderError as error:
            return ApiAnswer(error.status, error.body())
        in_force = msgspec.to_builtins(self._faults.in_force())
        return ApiAnswer(200, {"done": done, "in_force": in_force, "untold": self._teller.waiting()})

    async def _do(self, order: f.Order) -> Object:
        match order:
            case f.Clear():
                self._faults.clear()
            case f.Down() | f.Slow() | f.Lost():
                if getattr(order, "seconds", 0) > MAX_SECONDS:
                    raise invalid(f"at most {MAX_SECONDS} seconds")
                self._faults.add(order)
            case f.Webhooks():
                self._faults.webhooks = order
            case f.Refunds():
                self._faults.refunds = order
            case f.Forge():
                return {"status": await self._teller.forge(order)}
            case f.Later():
                if not 0 < order.seconds <= MAX_LATER:
                    raise invalid("seconds must be between 1 and 400 days")
                self._book.write(Change(later_seconds=order.seconds))
                catch_up(self._book, self._teller.wake)
            case f.Status():
                pass
            case _:
                made, change = self._become(order)
                self._book.write(change)
                self._teller.wake()
                return checkout.session_view(made)
        self._teller.wake()
        return {}

    def _become(self, order: f.Order) -> tuple[Object, Change]:
        match order:
            case f.Pay(how="card"):
                return checkout.session_pay(self._book, order.session)
            case f.Pay(how="declined"):
                return checkout.session_decline(self._book, order.session)
            case f.Pay():
                return checkout.session_pay_by_bank(
                    self._book, order.session, good=order.how == "bank", seconds=order.seconds
                )
            case f.SettleRefund():
                return reversals.refund_settle(self._book, order.refund, good=order.good)
            case f.OpenDispute():
                return reversals.dispute_open(self._book, order.charge, reason=order.reason)
            case f.CloseDispute():
                return reversals.dispute_close(self._book, order.dispute, won=order.won)
        raise invalid("not an order")
