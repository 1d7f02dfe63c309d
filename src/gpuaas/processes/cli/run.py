"""One run of one command: which API, with which credential, in which organisation, and how to print."""

import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpuaas.client import private_file
from gpuaas.client.api import Api, Credentials, Fixed, check_plain_http, decode, following
from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli.config import ConfigFile, Context, context_name, normal_url
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column, Output
from gpuaas.processes.cli.settings import Environment

T = TypeVar("T")


class Options:
    """The options every command takes."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.json = given.get("output") == "json"
        self.url: str = given.get("url") or ""
        self.context: str = given.get("context") or ""
        self.token_file: str = given.get("token_file") or ""
        self.plain_http = bool(given.get("plain_http"))
        self.debug = bool(given.get("debug"))


class Run:
    def __init__(self, environment: Environment, options: Options) -> None:
        self.environment = environment
        self.options = options
        self.out = Output(json=options.json, colour=environment.colour)
        self.config_file = ConfigFile(environment.config_directory)

    # ── where and as whom ────────────────────────────────────────────────────────────────────────

    @cached_property
    def place(self) -> tuple[str, Context]:
        """The context of this run and its name: by --url, --context, the environment, or the current one."""
        config = self.config_file.read()
        named = self.options.context or ("" if self.options.url else self.environment.context)
        given = self.options.url or ("" if named else self.environment.url)
        if self.options.url and self.options.context:
            raise UsageError("Say --url or --context, not both.")
        if given:
            url = normal_url(given)
            name = config.at(url)
            return (name, config.contexts[name]) if name else (context_name(url), Context(url=url))
        if named or config.current:
            name = named or config.current
            return name, config.named(name)
        raise UsageError("No API was chosen yet.", "Run: gpuaas login --url https://gpu.example.com")

    @property
    def context(self) -> Context:
        return self.place[1]

    @property
    def url(self) -> str:
        return self.context.url

    @property
    def plain_http(self) -> bool:
        return self.options.plain_http or self.environment.plain_http or self.context.plain_http

    @cached_property
    def credentials(self) -> Credentials:
        check_plain_http(self.url, allowed=self.plain_http)
        if self.options.token_file:
            return Fixed(read_token(Path(self.options.token_file)))
        if self.environment.token:
            return Fixed(check_token(self.environment.token, "GPUAAS_TOKEN"))
        session = self.config_file.session(self.place[0])
        found = session.read()
        if found is None or found.url != self.url:
            saved = self.place[0] == self.config_file.read().current
            advice = "Run: gpuaas login" + ("" if saved else f" --url {self.url}")
            raise Stop(f"You are not logged in to {self.url}.", advice, Exit.NOT_LOGGED_IN)
        return session

    @cached_property
    def api(self) -> Api:
        return Api(self.url, self.credentials)

    @cached_property
    def anonymous_api(self) -> Api:
        return Api(self.url)

    def close(self) -> None:
        for name in ("api", "anonymous_api"):
            if name in self.__dict__:
                self.__dict__[name].close()

    # ── calls and what they print ────────────────────────────────────────────────────────────────

    def show(self, call: Call[T], fields: Sequence[Column[T]]) -> T:
        """Send it and print the one thing that comes back."""
        body = self.api.send_raw(call)
        answer = decode(call, body)
        if self.out.json:
            self.out.raw(body)
        else:
            self.out.fields([(name, value(answer)) for name, value in fields])
        return answer

    def done(self, call: Call[T], sentence: str) -> T:
        """Send a change and say that it is made."""
        body = self.api.send_raw(call)
        if self.out.json:
            self.out.raw(body)
        else:
            self.out.line(sentence)
        return decode(call, body)

    def table(self, call: Call[Page[T]], columns: Sequence[Column[T]], *, limit: int, all: bool, empty: str) -> list[T]:
        """Send a list's call, for as many pages as asked, and print its rows."""
        bodies = self._pages(call, None if all else limit)
        pages = [decode(call, body) for body in bodies]
        rows = [row for page in pages for row in page.items]
        if self.out.json:
            self.out.raw(bodies[0] if len(bodies) == 1 else _joined(bodies))
        else:
            self.out.table(columns, rows, empty=empty)
            if pages[-1].next_cursor is not None:
                self.out.note(f"There are more than these {len(rows)}: --all shows all of them, --limit so many.")
        return rows

    def _pages(self, call: Call[Page[T]], limit: int | None) -> list[bytes]:
        bodies: list[bytes] = []
        left = limit
        call = _limited(call, left)
        while True:
            bodies.append(self.api.send_raw(call))
            page = msgspec.json.decode(bodies[-1], type=_RawPage)
            left = None if left is None else left - len(page.items)
            if page.next_cursor is None or (left is not None and left <= 0):
                return bodies
            call = _limited(following(call, page.next_cursor), left)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something that cannot be undone. Where nobody can answer, --yes has to be said."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise UsageError(f"{question} Nobody is here to answer.", "Say --yes if that is meant.")
        self.out.err.write(f"{question} [y/N] ")
        self.out.err.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise Stop("Nothing was changed.")


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw]
    next_cursor: str | None = None


def _limited(call: Call[Page[T]], left: int | None) -> Call[Page[T]]:
    size = MAX_LIMIT if left is None else min(left, MAX_LIMIT)
    assert call.query is not None  # noqa: S101 # a list's call has a query
    return Call(
        operation=call.operation,
        method=call.method,
        path=call.path,
        answer=call.answer,
        query=msgspec.structs.replace(call.query, limit=size),
    )


def _joined(bodies: list[bytes]) -> bytes:
    """Several pages as one, with each item's bytes as they came."""
    pages = [msgspec.json.decode(body, type=_RawPage) for body in bodies]
    return msgspec.json.encode(
        _RawPage(items=[item for page in pages for item in page.items], next_cursor=pages[-1].next_cursor)
    )


def read_token(path: Path) -> str:
    content = private_file.read(path)
    if content is None:
        raise UsageError(f"There is no file {path}.", "--token-file names a file with a service-account key.")
    return check_token(content.decode(errors="replace").strip(), str(path))


def check_token(token: str, where: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{where} holds no credential: it must be one line of visible characters.")
    return token
