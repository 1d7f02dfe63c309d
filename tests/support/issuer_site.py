"""The built-in issuer on a live socket, and a browser to use it with: real HTTP, real cookies, real PostgreSQL."""

import asyncio
import base64
import hashlib
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit
from uuid import UUID

import httpx

from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.domains.identity.authority.service import CredentialAuthority
from gpuaas.domains.issuer import routes as issuer_routes
from gpuaas.domains.issuer import service as issuer
from gpuaas.domains.issuer.provider import AUDIENCE, Issuer
from gpuaas.infra.http.app import App
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.pipeline import Edge
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.infra.oidc.keys import KeyCache
from gpuaas.infra.oidc.verifier import TokenVerifier, TrustedIssuer
from gpuaas.infra.passwords import Passwords
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.ids import new_id
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import SERVICE_KEY_PREFIX, MasterKey, new_token, token_hash
from gpuaas.ports.policy import PolicyReader

CALLBACK = "http://127.0.0.1:45678/callback"
PASSWORD = "four-quiet-otters-skate"
SCOPE = "openid profile email"
__all__ = ["issuer_routes"]


class WrittenPolicy(PolicyReader):
    """Implements `ports.policy.PolicyReader`: the defaults, but for what a test writes down. Lanes are wide open."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {
            "rate_limit.auth_per_minute": 600_000,
            "rate_limit.auth_burst": 100_000,
            "rate_limit.default_per_minute": 600_000,
            "rate_limit.default_burst": 100_000,
            "rate_limit.bad_credentials_per_minute": 100_000,
        }

    def number(self, key: str, org_id: Any = None, project_id: Any = None) -> int:
        return int(self.values.get(key, POLICY_KEYS[key].default))

    def text(self, key: str, org_id: Any = None, project_id: Any = None) -> str:
        return str(self.values.get(key, POLICY_KEYS[key].default))

    def flag(self, key: str, org_id: Any = None, project_id: Any = None) -> bool:
        return bool(self.values.get(key, POLICY_KEYS[key].default))

    def changed(self) -> None:
        """Nothing is remembered, so nothing has to be read again."""


@dataclass
class Site:
    """An installation with the built-in issuer."""

    url: str
    db: Database
    keys: SigningKeys
    passwords: Passwords
    policy: WrittenPolicy
    authority: CredentialAuthority
    http: httpx.AsyncClient
    parts: Parts
    browsers: list["Browser"] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"{self.url}/oidc"

    async def account(self, name: str = "", *, password: str = PASSWORD) -> "Account":
        name = name or f"ada-{new_id().hex}"
        async with self.db.transaction(Sight(), "test") as tx:
            subject = await issuer.account_ensure(
                tx, email=f"{name}@example.com", password=password, name=name.title()[:60]
            )
        return Account(f"{name}@example.com", password, subject)

    def browser(self) -> "Browser":
        self.browsers.append(Browser(self))
        return self.browsers[-1]

    async def post(self, path: str, **form: str) -> httpx.Response:
        return await self.http.post(f"{self.issuer}{path}", data=form)

    async def token(self, grant_type: str, client_id: str = "gpuaas-cli", **form: str) -> httpx.Response:
        return await self.post("/token", grant_type=grant_type, client_id=client_id, **form)

    async def refresh(self, refresh_token: str, **form: str) -> httpx.Response:
        return await self.token("refresh_token", refresh_token=refresh_token, **form)

    async def log_in(self, account: "Account", **wanted: str) -> dict[str, Any]:
        """The tokens a client gets for this person, through the browser."""
        login = Login(self, **wanted)
        landed = await self.browser().log_in(login, account)
        answer = await login.exchange(landed)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def accepted(self, access_token: str) -> bool:
        """Whether the API takes the token now."""
        from gpuaas.kit.errors import Fault

        try:
            await self.authority.actor(access_token, fresh=True)
        except Fault:
            return False
        return True

    async def rows(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        async with self.db.read(Sight(PLATFORM)) as tx:
            return [dict(row) for row in await tx.rows(sql, *args)]

    async def run(self, sql: str, *args: Any) -> None:
        async with self.db.transaction(Sight(PLATFORM), "test") as tx:
            await tx.run(sql, *args)


@dataclass(frozen=True)
class Account:
    email: str
    password: str
    subject: str


@dataclass(frozen=True)
class Robot:
    """A service account with a live key."""

    id: UUID
    key_id: UUID
    key: str

    @classmethod
    async def make(cls, superuser: Any) -> "Robot":
        org, made = new_id(), cls(new_id(), new_id(), new_token(SERVICE_KEY_PREFIX))
        await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'Org')", org, org.hex)
        await superuser.execute(
            "INSERT INTO service_accounts (id, org_id, name, role, allowed_operations, created_by) "
            "VALUES ($1, $2, 'robot', 'member', '{*}', $1)",
            made.id,
            org,
        )
        await superuser.execute(
            "INSERT INTO service_account_keys (id, org_id, service_account_id, key_hash, hint, expires_at) "
            "VALUES ($1, $2, $3, $4, '', now() + interval '1 day')",
            made.key_id,
            org,
            made.id,
            token_hash(made.key),
        )
        return made


@dataclass
class Login:
    """An authorization request and its secrets. What is given by name replaces the usual; '' leaves it out."""

    site: Site
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    sent: dict[str, str] = field(default_factory=dict)

    def __init__(self, site: Site, **wanted: str) -> None:
        self.site = site
        self.verifier = secrets.token_urlsafe(32)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        usual = {
            "response_type": "code",
            "client_id": "gpuaas-cli",
            "redirect_uri": CALLBACK,
            "scope": SCOPE,
            "state": secrets.token_urlsafe(8),
            "nonce": secrets.token_urlsafe(8),
            "code_challenge_method": "S256",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        }
        self.sent = {name: value for name, value in (usual | wanted).items() if value}

    @property
    def url(self) -> str:
        return f"{self.site.issuer}/authorize?{urlencode(self.sent)}"

    async def exchange(self, landed: str, **changed: str) -> httpx.Response:
        answer = {
            "code": query(landed).get("code", ""),
            "redirect_uri": self.sent["redirect_uri"],
            "code_verifier": self.verifier,
            "client_id": self.sent["client_id"],
        }
        form = {name: value for name, value in (answer | changed).items() if value}
        return await self.site.post("/token", grant_type="authorization_code", **form)


class Browser:
    """Follows redirects on the site, keeps cookies, fills in forms; stops where it is sent elsewhere."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.http = httpx.AsyncClient(timeout=30, verify=False)

    async def open(self, url: str) -> httpx.Response:
        return await self._follow(await self.http.get(url))

    async def submit(self, page: httpx.Response, button: str = "", **typed: str) -> httpx.Response:
        form = Form.on(page)
        fields = form.fields | typed | ({"answer": button} if button else {})
        return await self._follow(await self.http.post(urljoin(str(page.url), form.action), data=fields))

    async def log_in(self, login: Login, account: Account) -> str:
        """Where the browser lands: the client's redirect address with its query."""
        page = await self.open(login.url)
        if page.status_code == 303:
            return landed(page)
        return landed(await self.submit(page, email=account.email, password=account.password))

    async def _follow(self, response: httpx.Response) -> httpx.Response:
        for _ in range(5):
            if response.status_code != 303:
                return response
            to = urljoin(str(response.url), response.headers["location"])
            if not to.startswith(self.site.issuer):
                return response
            response = await self.http.get(to)
        raise AssertionError("redirected in circles")


class Form(HTMLParser):
    """The one form on a page: where it goes and what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.inputs: list[dict[str, str | None]] = []

    @classmethod
    def on(cls, page: httpx.Response) -> "Form":
        form = cls()
        form.feed(page.text)
        assert form.action, f"no form on the page: {page.status_code} {page.text[-400:]}"
        return form

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.action = found.get("action") or ""
        if tag == "input":
            self.inputs.append(found)
            self.fields[found.get("name") or ""] = found.get("value") or ""


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def landed(response: httpx.Response) -> str:
    assert response.status_code == 303, f"{response.status_code} {response.text[-600:]}"
    return str(response.headers["location"])


@asynccontextmanager
async def issuer_site(db: Database) -> AsyncIterator[Site]:
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    policy, passwords = WrittenPolicy(), Passwords()
    keys = SigningKeys(MasterKey(b"m" * 32))
    verifier = TokenVerifier(TrustedIssuer(f"{url}/oidc", AUDIENCE, KeyCache(issuer.BuiltInKeys(db, keys)), own=True))
    authority = CredentialAuthority(db, verifier)
    parts = Parts(db, policy, keys, passwords, verifier, authority, Issuer.at(url))
    edge = Edge(db=db, authority=authority, policy=policy, cursor_key=b"c" * 32, parts=parts)
    stop = asyncio.Event()
    serving = asyncio.create_task(_serve(App(REGISTRY, edge, pages={}), listener, stop))
    async with httpx.AsyncClient(timeout=30, verify=False) as http:
        site = Site(url, db, keys, passwords, policy, authority, http, parts)
        yield site
        for browser in site.browsers:
            await browser.http.aclose()
    stop.set()
    await serving
    passwords.close()


async def _serve(app: App, listener: socket.socket, stop: asyncio.Event) -> None:
    await serve(make_server(app, host="127.0.0.1", port=0), listener, stop)
