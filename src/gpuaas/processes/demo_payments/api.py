"""The provider's API for programs: /v1. Answers are made without waiting for anything, so that no two requests ever
run into each other and an idempotency key is decided once.

Always holds: what was answered with success is in the file; the same key with the same parameters gets the same
answer, with others a refusal."""

import hashlib
import hmac
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec

from gpuaas.processes.demo_payments import checkout, reversals
from gpuaas.processes.demo_payments import params as p
from gpuaas.processes.demo_payments.book import Answered, Book, Change, Object, new_id
from gpuaas.processes.demo_payments.errors import ProviderError, invalid
from gpuaas.processes.demo_payments.faults import Faults
from gpuaas.processes.demo_payments.forms import read_form
from gpuaas.processes.demo_payments.listing import expanded, listed
from gpuaas.processes.demo_payments.objects import API_VERSION

MAX_KEY = 255
Headers = tuple[tuple[bytes, bytes], ...]
Made = tuple[Object, Change]

KINDS: dict[str, tuple[str, type[p.Listing]]] = {
    "customers": ("customer", p.CustomerListing),
    "checkout/sessions": ("checkout.session", p.SessionListing),
    "payment_intents": ("payment_intent", p.IntentListing),
    "charges": ("charge", p.ChargeListing),
    "refunds": ("refund", p.RefundListing),
    "disputes": ("dispute", p.RefundListing),
    "events": ("event", p.EventListing),
}
"""What can be listed and read, by its place in the path."""


class Asked(msgspec.Struct, frozen=True):
    """A request whose body is here."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes


class ApiAnswer(msgspec.Struct, frozen=True):
    status: int
    body: Object
    headers: Headers = ()


class Api:
    def __init__(self, book: Book, faults: Faults, *, base_url: str, secret_key: str, wake: Callable[[], None]) -> None:
        self._book = book
        self._faults = faults
        self._base_url = base_url
        self._secret_key = secret_key.encode()
        self._wake = wake

    def answer(self, asked: Asked) -> ApiAnswer:
        request_id = new_id("req_", 14)
        headers: Headers = (
            (b"request-id", request_id.encode()),
            (b"stripe-version", API_VERSION.encode()),
        )
        try:
            self._authenticate(asked.headers.get(b"authorization", b""))
            status, body, replayed = self._answer(asked, request_id)
        except ProviderError as error:
            return ApiAnswer(error.status, error.body(), headers)
        except OSError as error:
            return ApiAnswer(500, {"error": {"type": "api_error", "message": f"Nothing was changed: {error}"}}, headers)
        if replayed:
            headers += ((b"idempotent-replayed", b"true"),)
        return ApiAnswer(status, body, headers)

    def _authenticate(self, given: bytes) -> None:
        scheme, _, credential = given.partition(b" ")
        if scheme.lower() == b"basic":
            try:
                credential = b64decode(credential, validate=True).partition(b":")[0]
            except ValueError:
                credential = b""
        if not credential:
            raise ProviderError(
                401,
                "invalid_request_error",
                "You did not provide an API key. You need to provide your API key in the Authorization header, "
                "using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
            )
        if not hmac.compare_digest(credential.strip(), self._secret_key):
            raise ProviderError(401, "invalid_request_error", "Invalid API Key provided.", code="api_key_invalid")

    def _answer(self, asked: Asked, request_id: str) -> tuple[int, Object, bool]:
        if asked.method == "GET":
            return 200, self._read(asked), False
        if asked.method != "POST":
            raise _unrecognised(asked)
        kind = asked.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if asked.body and kind != b"application/x-www-form-urlencoded":
            raise invalid("Invalid request: send the parameters as application/x-www-form-urlencoded.")
        given = read_form(asked.body)
        key = asked.headers.get(b"idempotency-key", b"").decode("latin-1")
        if len(key) > MAX_KEY:
            raise invalid("Idempotency keys can be at most 255 characters.", param="idempotency_key")
        fingerprint = _fingerprint(asked.path, given)
        before = self._book.answered(key) if key else None
        if before is not None:
            if before.asked != fingerprint:
                raise ProviderError(
                    400,
                    "idempotency_error",
                    "Keys for idempotent requests can only be used with the same parameters they were first used "
                    f"with. Try using a key other than '{key}' if you meant to execute a different request.",
                )
            return before.status, before.body, True
        return *self._change(asked, given, key, fingerprint, request_id), False

    def _change(
        self, asked: Asked, given: dict[str, Any], key: str, fingerprint: str, request_id: str
    ) -> tuple[int, Object]:
        try:
            made, change, params = self._make(asked, given)
            status, body = 200, expanded(_Written(self._book, change), made, params)
        except ProviderError as error:
            if not error.kept or not key:
                raise
            status, body, change = error.status, error.body(), Change()
        for event in change.events:
            event["request"] = {"id": request_id, "idempotency_key": key or None}
        if key:
            change.answer = Answered(key, fingerprint, status, body, self._book.now())
        self._book.write(change)
        self._wake()
        return status, body

    def _make(self, asked: Asked, given: dict[str, Any]) -> tuple[Object, Change, p.Params]:
        """What the request makes, nothing of which is written yet."""
        params: p.Params
        match asked.path.removeprefix("/v1/").split("/"):
            case ["customers"]:
                params = p.read_params(p.CustomerWrite, given)
                made = checkout.customer_create(self._book, params)
            case ["customers", id]:
                params = p.read_params(p.CustomerWrite, given)
                made = checkout.customer_update(self._book, id, params)
            case ["checkout", "sessions"]:
                params = p.read_params(p.CheckoutCreate, given)
                made = checkout.session_create(self._book, params, self._base_url)
            case ["checkout", "sessions", id, "expire"]:
                params = p.read_params(p.Nothing, given)
                made = checkout.session_expire(self._book, id)
            case ["billing_portal", "sessions"]:
                params = p.read_params(p.PortalCreate, given)
                made = checkout.portal_create(self._book, params, self._base_url)
            case ["refunds"]:
                params = p.read_params(p.RefundCreate, given)
                made = reversals.refund_create(self._book, params, pending=self._faults.refunds.pending)
            case _:
                raise _unrecognised(asked)
        return *made, params

    def _read(self, asked: Asked) -> Object:
        given = read_form(asked.query)
        place = asked.path.removeprefix("/v1/")
        if place in KINDS:
            kind, listing = KINDS[place]
            return listed(self._book, kind, asked.path, p.read_params(listing, given))
        where, _, name = place.rpartition("/")
        if where in KINDS:
            return expanded(self._book, self._book.get(KINDS[where][0], name), p.read_params(p.Nothing, given))
        if name == "line_items" and where.startswith("checkout/sessions/"):
            session = self._book.get("checkout.session", where.removeprefix("checkout/sessions/"))
            return checkout.line_items(session)
        raise _unrecognised(asked)


class _Written:
    """The book as it will be after a change: an answer may write out what the request itself makes."""

    def __init__(self, book: Book, change: Change) -> None:
        self._book = book
        self._made = {one["id"]: one for one in change.put}

    def find(self, id: str) -> Object | None:
        return self._made.get(id) or self._book.find(id)


def _fingerprint(path: str, given: dict[str, Any]) -> str:
    whole = msgspec.json.encode([path, given], order="sorted")
    return hashlib.sha256(whole).hexdigest()


def _unrecognised(asked: Asked) -> ProviderError:
    return invalid(
        f"Unrecognized request URL ({asked.method}: {asked.path[:200]}). This is a demo of the provider, "
        "with the parts that top-ups need.",
        status=404,
    )
