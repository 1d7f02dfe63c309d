"""A person at a terminal: `gpuaas` as a process with a home of its own, and a browser that fills in forms."""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

GPUAAS = [sys.executable, "-m", "gpuaas"]
SECONDS = 60


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def said(self) -> str:
        return self.out + self.err


@dataclass
class Terminal:
    """Commands run here share a configuration, as one person's do."""

    home: Path
    url: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home / "config" / "gpuaas"

    def _environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "TZ")
            if name in os.environ
        }
        own = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "PYTHONWARNINGS": "error",
        }
        return kept | own | ({"GPUAAS_URL": self.url} if self.url else {}) | self.environment

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *GPUAAS,
            *words,
            env=self._environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )

    async def run(self, *words: str, stdin: str = "") -> Ran:
        process = await self.start(*words)
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), SECONDS)
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    async def good(self, *words: str) -> str:
        """What it printed; it must end well."""
        ran = await self.run(*words)
        assert ran.code == 0, f"gpuaas {' '.join(words)} ended with {ran.code}: {ran.said}"
        return ran.out

    async def rows(self, *words: str) -> list[Any]:
        ran = await self.run(*words, "--output", "json")
        found: list[Any] = ran.json["items"]
        return found

    async def log_in(self, person: "Person", *words: str) -> Ran:
        """In the browser, as this person."""
        process = await self.start("login", "--no-browser", *words)
        address = await told_address(process, r"http://\S+/authorize\?\S+")
        await Browser().log_in(address, person)
        out, err = await asyncio.wait_for(process.communicate(), SECONDS)
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())


@dataclass(frozen=True)
class Person:
    email: str
    password: str


async def told_address(process: asyncio.subprocess.Process, pattern: str) -> str:
    """The first thing like `pattern` that the process prints on its error stream."""
    assert process.stderr is not None
    said = ""
    while line := await asyncio.wait_for(process.stderr.readline(), SECONDS):
        said += line.decode()
        found = re.search(pattern, said)
        if found:
            return found[0]
    raise AssertionError(f"it ended without telling: {said}")


class Browser:
    """Follows redirects, keeps cookies, fills in what a login asks for."""

    def __init__(self) -> None:
        self._http = httpx.AsyncClient(follow_redirects=True, timeout=30)

    async def log_in(self, address: str, person: Person, **typed: str) -> httpx.Response:
        page = await self._http.get(address)
        for _ in range(6):
            form = _Form(page.text)
            if form.action is None:
                break
            fields = form.fields | {"email": person.email, "password": person.password} | typed
            named = {name: value for name, value in fields.items() if name in form.fields or name in form.choices}
            named |= {name: value for name, value in form.choices.items() if name not in named}
            page = await self._http.post(urljoin(str(page.url), form.action), data=named)
            assert page.status_code < 400, page.text[-600:]
        await self._http.aclose()
        return page


class _Form(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.choices: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and self.action is None:
            self.action = found.get("action", "")
        if tag == "input" and found.get("name"):
            self.fields[found["name"]] = found.get("value", "")
        if tag == "button" and found.get("name"):
            self.choices.setdefault(found["name"], found.get("value", ""))
