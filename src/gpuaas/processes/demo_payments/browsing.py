"""The provider's pages over HTTP: /pay/<session> and /portal/<session>.

Always holds: reading a page changes nothing; a form counts only from a page we made for this very browser."""

from http.cookies import CookieError, SimpleCookie
from itertools import islice

import msgspec

from gpuaas.domains.issuer.forgery import form_token, genuine, new_cookie, usable
from gpuaas.infra.http.html import HtmlPage
from gpuaas.processes.demo_payments import checkout, pages
from gpuaas.processes.demo_payments.api import Asked, Headers
from gpuaas.processes.demo_payments.book import Book, Change, Object
from gpuaas.processes.demo_payments.errors import ProviderError, missing
from gpuaas.processes.demo_payments.forms import read_form

COOKIE = "demo_payments_form"
LISTED = 100


class PageAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: Headers


class Pages:
    def __init__(self, book: Book, host: str) -> None:
        self._book = book
        self._host = host

    def answer(self, asked: Asked) -> tuple[PageAnswer, bool]:
        """The answer, and whether something was changed."""
        try:
            place, _, name = asked.path.removeprefix("/").partition("/")
            if place == "portal" and asked.method in ("GET", "HEAD"):
                return _html(200, self._portal(name)), False
            if place != "pay" or asked.method not in ("GET", "HEAD", "POST"):
                raise missing("page", asked.path)
            session = self._book.get("checkout.session", name)
            return self._submitted(asked, session) if asked.method == "POST" else (self._shown(asked, session), False)
        except ProviderError as error:
            if error.status != 404:
                return _html(error.status, pages.message_page("That did not work", error.message)), False
            said = "There is no such payment here. It may be from another day."
            return _html(404, pages.message_page("Not here", said)), False

    def _shown(self, asked: Asked, session: Object) -> PageAnswer:
        payment = self._payment(session)
        if session["status"] != "open" or session["expires_at"] <= self._book.now():
            return _html(200, pages.settled_page(payment))
        cookie = _cookie(asked)
        email = session["customer_email"] or self._email(session["customer"])
        if usable(cookie):
            return _html(200, pages.payment_page(payment, email, form_token(cookie)))
        cookie = new_cookie()
        page = _html(200, pages.payment_page(payment, email, form_token(cookie)))
        kept = f"{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Lax".encode()
        return PageAnswer(200, page.body, (*page.headers, (b"set-cookie", kept)))

    def _submitted(self, asked: Asked, session: Object) -> tuple[PageAnswer, bool]:
        form = read_form(asked.body)
        token, do = form.get("form_token"), form.get("do")
        hosts = frozenset({self._host, asked.headers.get(b"host", b"").decode("latin-1")})
        if not isinstance(token, str) or not genuine(_cookie(asked), token, asked.headers, hosts):
            said = "Open the page again and choose there: this form was not made for your browser."
            return _html(403, pages.message_page("Nothing was paid", said)), False
        if do == "cancel":
            # As with the real provider: the session stays open until it expires or is expired.
            return _redirect(session["cancel_url"] or asked.path), False
        if session["status"] != "open":  # a second click
            return _redirect(asked.path), False
        match do:
            case "pay":
                after, change = checkout.session_pay(self._book, session["id"])
            case "decline":
                after, change = checkout.session_decline(self._book, session["id"])
            case "bank" | "bank_fails":
                after, change = checkout.session_pay_by_bank(
                    self._book, session["id"], good=do == "bank", seconds=pages.BANK_SECONDS
                )
            case _:
                return _html(400, pages.message_page("Nothing was paid", "The form was not complete.")), False
        return self._kept(asked, after, change)

    def _kept(self, asked: Asked, after: Object, change: Change) -> tuple[PageAnswer, bool]:
        try:
            self._book.write(change)
        except OSError:
            said = "The demo could not keep it. Try again."
            return _html(500, pages.message_page("Nothing was paid", said)), False
        return _redirect(checkout.success_url(after) if after["status"] == "complete" else asked.path), True

    def _portal(self, id: str) -> HtmlPage:
        portal = self._book.get("billing_portal.session", id)
        if portal["created"] + checkout.PORTAL_SECONDS <= self._book.now():
            return pages.message_page(
                "This link is too old", "Ask for a new one where you came from.", back=portal["return_url"] or ""
            )
        of_customer = (
            one for one in self._book.newest_first("checkout.session") if one["customer"] == portal["customer"]
        )
        shown = [self._payment(one) for one in islice(of_customer, LISTED + 1)]
        customer = self._book.get("customer", portal["customer"])
        return pages.portal_page(customer, shown[:LISTED], portal["return_url"] or "", more=len(shown) > LISTED)

    def _payment(self, session: Object) -> pages.Payment:
        intent = self._book.find(session["payment_intent"] or "")
        charge = self._book.find(intent["latest_charge"] or "") if intent else None
        return pages.Payment(session, intent, charge)

    def _email(self, customer: str | None) -> str:
        found = self._book.find(customer) if customer else None
        return (found["email"] or found["name"] or "") if found else ""


def _cookie(asked: Asked) -> str:
    try:
        found = SimpleCookie(asked.headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _html(status: int, page: HtmlPage) -> PageAnswer:
    return PageAnswer(status, page.body, ((b"content-type", b"text/html; charset=utf-8"), *page.headers))


def _redirect(url: str) -> PageAnswer:
    return PageAnswer(303, b"", ((b"location", url.encode()), (b"referrer-policy", b"no-referrer")))
