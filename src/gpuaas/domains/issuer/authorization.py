"""An authorization request, read and judged (RFC 6749, 7636, 8252, 9207; OpenID Connect Core).

Always holds: nothing is sent to a redirect address before the client is known and the address is one of its own;
without an S256 challenge there is no code."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from urllib.parse import urlencode

import msgspec

from gpuaas.domains.issuer.clients import MAX_REDIRECT, Client, Grant
from gpuaas.domains.issuer.oauth import Error
from gpuaas.domains.issuer.provider import PROMPTS, SCOPES, Issuer

MAX_TEXT = 512
MAX_SCOPE = 500
_CHALLENGE = re.compile(r"^[A-Za-z0-9_-]{43}$")
_VERIFIER = re.compile(r"^[A-Za-z0-9._~-]{43,128}$")
_SCOPE = re.compile(r"^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$")
_AGE = re.compile(r"^\d{1,9}$", re.ASCII)
_UNSUPPORTED = (
    ("request", Error.REQUEST_NOT_SUPPORTED),
    ("request_uri", Error.REQUEST_URI_NOT_SUPPORTED),
    ("registration", Error.REGISTRATION_NOT_SUPPORTED),
)
NAMES = (
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "prompt",
    "max_age",
    "login_hint",
    "id_token_hint",
    "response_mode",
)


class RequestUntrusted(Exception):
    """Client or redirect address are not ours: the person is told, nobody else."""


class RequestRefused(Exception):
    """The client is told, at its own address."""

    def __init__(self, redirect: str) -> None:
        super().__init__(redirect)
        self.redirect = redirect


class AuthorizationRequest(msgspec.Struct, frozen=True, kw_only=True):
    client: Client
    redirect_uri: str
    scopes: list[str]
    state: str | None
    nonce: str | None
    code_challenge: str
    prompts: frozenset[str]
    max_age: int | None
    login_hint: str
    id_token_hint: str

    def wants_login(self, auth_time: datetime, now: datetime) -> bool:
        """Whether a browser that is logged in since `auth_time` has to log in again."""
        if self.prompts & {"login", "select_account"}:
            return True
        return self.max_age is not None and now - auth_time > timedelta(seconds=self.max_age)


def read(issuer: Issuer, sent: Mapping[str, str]) -> AuthorizationRequest:
    client, redirect_uri = _client(issuer, sent)
    problem = _problem(client, sent)
    if problem is not None:
        raise RequestRefused(refusal(issuer, redirect_uri, sent.get("state"), *problem))
    return AuthorizationRequest(
        client=client,
        redirect_uri=redirect_uri,
        scopes=granted_scopes(sent["scope"]),
        state=sent.get("state"),
        nonce=sent.get("nonce"),
        code_challenge=sent["code_challenge"],
        prompts=_prompts(sent),
        max_age=int(sent["max_age"]) if "max_age" in sent else None,
        login_hint=sent.get("login_hint", ""),
        id_token_hint=sent.get("id_token_hint", ""),
    )


def _client(issuer: Issuer, sent: Mapping[str, str]) -> tuple[Client, str]:
    client = issuer.clients.get(sent.get("client_id", ""))
    if client is None:
        raise RequestUntrusted("The program that sent you here is not one this installation knows.")
    redirect_uri = sent.get("redirect_uri", "")
    if len(redirect_uri) > MAX_REDIRECT or not client.may_redirect_to(redirect_uri):
        raise RequestUntrusted(f"{client.name} asked to send you to an address that is not its own.")
    return client, redirect_uri


def _problem(client: Client, sent: Mapping[str, str]) -> tuple[Error, str] | None:
    """What is wrong with a request whose sender is known, if anything."""
    long = next((name for name in ("state", "nonce") if len(sent.get(name, "")) > MAX_TEXT), None)
    age, prompts, challenge = sent.get("max_age"), _prompts(sent), sent.get("code_challenge", "")
    checks: tuple[tuple[bool, Error, str], ...] = (
        *((name in sent, error, f"{name} is not supported") for name, error in _UNSUPPORTED),
        ("response_type" not in sent, Error.INVALID_REQUEST, "response_type is missing"),
        (sent.get("response_type", "code") != "code", Error.UNSUPPORTED_RESPONSE_TYPE, "response_type must be code"),
        (sent.get("response_mode", "query") != "query", Error.INVALID_REQUEST, "response_mode must be query"),
        (Grant.CODE not in client.grants, Error.UNAUTHORIZED_CLIENT, "this client may not use a code"),
        (long is not None, Error.INVALID_REQUEST, f"{long} is longer than {MAX_TEXT} characters"),
        (bad_scope(sent.get("scope", "")), Error.INVALID_SCOPE, "scope must be words separated by one space"),
        ("openid" not in sent.get("scope", "").split(" "), Error.INVALID_SCOPE, "scope must contain openid"),
        ("code_challenge" not in sent, Error.INVALID_REQUEST, "code_challenge is required (PKCE)"),
        (sent.get("code_challenge_method") != "S256", Error.INVALID_REQUEST, "code_challenge_method must be S256"),
        (not _CHALLENGE.fullmatch(challenge), Error.INVALID_REQUEST, "code_challenge is malformed"),
        (bool(prompts - set(PROMPTS)), Error.INVALID_REQUEST, "prompt has a value that is not known"),
        ("none" in prompts and len(prompts) > 1, Error.INVALID_REQUEST, "prompt none stands alone"),
        (age is not None and not _AGE.fullmatch(age), Error.INVALID_REQUEST, "max_age is a number of seconds"),
    )
    return next(((error, said) for wrong, error, said in checks if wrong), None)


def _prompts(sent: Mapping[str, str]) -> frozenset[str]:
    return frozenset(sent.get("prompt", "").split())


def bad_scope(scope: str) -> bool:
    return len(scope) > MAX_SCOPE or not _SCOPE.fullmatch(scope)


def granted_scopes(scope: str) -> list[str]:
    """What was asked and is known, in a fixed order; unknown words are left out, as the standard has it."""
    asked = set(scope.split(" "))
    return [known for known in SCOPES if known in asked]


def success(issuer: Issuer, request: AuthorizationRequest, code: str) -> str:
    return _answer(request.redirect_uri, {"code": code, "state": request.state, "iss": issuer.url})


def refusal(issuer: Issuer, redirect_uri: str, state: str | None, error: Error, description: str) -> str:
    kept = state if state is not None and len(state) <= MAX_TEXT else None
    return _answer(
        redirect_uri,
        {
            "error": error,
            "error_description": description,
            "state": kept,
            "iss": issuer.url,
        },
    )


def _answer(redirect_uri: str, fields: Mapping[str, str | None]) -> str:
    joint = "&" if "?" in redirect_uri else "?"
    return redirect_uri + joint + urlencode({name: value for name, value in fields.items() if value is not None})


def well_formed_verifier(verifier: str) -> bool:
    return _VERIFIER.fullmatch(verifier) is not None


def proves(verifier: str, challenge: str) -> bool:
    """PKCE, S256."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    computed = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return hmac.compare_digest(computed, challenge)
