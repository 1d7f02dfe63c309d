"""Saved contexts: for each API we use its URL, and the organisation and project chosen there. One file, private; the
session of a context is a file beside it."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gpuaas.client import private_file
from gpuaas.client.errors import FileRefused
from gpuaas.client.session import SessionFile
from gpuaas.processes.cli.failures import UsageError

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")


class Chosen(msgspec.Struct, frozen=True):
    """An organisation or project, by id, with the name it had when it was chosen."""

    id: str
    name: str


class Context(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    org: Chosen | None = None
    project: Chosen | None = None
    plain_http: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True):
    current: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        try:
            return self.contexts[name]
        except KeyError:
            known = ", ".join(sorted(self.contexts)) or "there are none yet"
            raise UsageError(f"There is no context {name!r}.", f"Saved contexts: {known}.") from None

    def at(self, url: str) -> str:
        """The name of the context for a URL; '' when there is none. The current one is preferred."""
        names = [self.current, *sorted(self.contexts)]
        return next((name for name in names if name in self.contexts and self.contexts[name].url == url), "")

    def with_context(self, name: str, context: Context, *, current: bool = False) -> "Config":
        return Config(
            current=name if current or not self.current else self.current, contexts={**self.contexts, name: context}
        )

    def without(self, name: str) -> "Config":
        left = {key: value for key, value in self.contexts.items() if key != name}
        return Config(current="" if self.current == name else self.current, contexts=left)


class ConfigFile:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "config.json"

    def read(self) -> Config:
        content = private_file.read(self.path)
        if content is None:
            return Config()
        try:
            return msgspec.json.decode(content, type=Config)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FileRefused(
                f"{self.path} cannot be read: {error}. Mend it, or delete it and log in again."
            ) from error

    def write(self, config: Config) -> None:
        private_file.write(self.path, msgspec.json.format(msgspec.json.encode(config)) + b"\n")

    def put(self, name: str, context: Context, *, current: bool = False) -> None:
        """Change one context, whatever other commands write meanwhile."""
        with private_file.locked(self.path):
            self.write(self.read().with_context(name, context, current=current))

    def session(self, name: str) -> SessionFile:
        if not NAME.match(name):
            raise UsageError(f"{name!r} is not a context's name.", "Letters, digits, dots, dashes; 63 at most.")
        return SessionFile(self.directory / "sessions" / f"{name}.json")


def normal_url(text: str) -> str:
    """The API's address as we compare it: scheme, host and path without the trailing slash."""
    parts = urlsplit(text if "://" in text else f"https://{text}")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"{text!r} is not the address of an API.", "It looks like https://gpu.example.com")
    if parts.username or parts.password:
        raise UsageError("A URL with a password in it is not taken.", "Log in with gpuaas login instead.")
    path = parts.path.rstrip("/").removesuffix("/api/v1").removesuffix("/api").rstrip("/")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def context_name(url: str) -> str:
    """A name for a context nobody named: its host and port."""
    return urlsplit(url).netloc.replace(":", "-").strip("[]")
