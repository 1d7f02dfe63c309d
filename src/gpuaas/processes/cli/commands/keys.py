"""One's SSH public keys."""

import sys
from pathlib import Path

from gpuaas.client import identity
from gpuaas.contracts.http.ssh_keys import SshKeyAdd, SshKeyView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("keys", "Your SSH public keys. Private keys stay with you: none is ever made or stored for you.")
_MAX_BYTES = 10_000
_COLUMNS: list[Column[SshKeyView]] = [
    ("name", lambda key: key.name),
    ("type", lambda key: key.algorithm),
    ("fingerprint", lambda key: key.fingerprint),
    ("added", lambda key: key.created_at),
    ("id", lambda key: key.id),
]


@GROUP.command("list", LIMIT, ALL, summary="List your SSH public keys.")
def key_list(run: Run, *, limit: int, all: bool) -> None:
    empty = "You have no SSH keys. Add one with: gpuaas keys add ~/.ssh/id_ed25519.pub"
    run.table(identity.ssh_key_list(), _COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command(
    "add",
    Argument("file", help="A .pub file, or '-' for standard input.", completes="file"),
    Argument("--name", help="What you call it. Default: the key's comment."),
    summary="Add an SSH public key.",
    examples=["gpuaas keys add ~/.ssh/id_ed25519.pub", "ssh-add -L | head -1 | gpuaas keys add - --name laptop"],
)
def key_add(run: Run, *, file: str, name: str | None) -> None:
    run.show(identity.ssh_key_add(SshKeyAdd(public_key=read_public_key(file), name=name)), _COLUMNS)


def read_public_key(file: str) -> str:
    try:
        if file == "-":
            content = sys.stdin.read(_MAX_BYTES)
        else:
            with Path(file).expanduser().open(encoding="utf-8") as opened:
                content = opened.read(_MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {file}: {getattr(error, 'strerror', None) or 'it is not text'}.") from error
    if "PRIVATE KEY" in content:
        raise UsageError(f"{file} is a private key. It was not sent.", "Name the file that ends in .pub.")
    if not content.strip():
        raise UsageError(f"{file} is empty.")
    return content.strip()


@GROUP.command(
    "delete", Argument("key", help="Its name, fingerprint or id."), YES, summary="Delete one of your SSH public keys."
)
def key_delete(run: Run, *, key: str, yes: bool) -> None:
    key_id = names.as_id(key)
    if key_id is None:
        listed = list(run.api.items(identity.ssh_key_list(names.LARGEST_PAGE)))
        by_print = [one for one in listed if one.fingerprint == key]
        advice = "See yours with: gpuaas keys list"
        key_id = by_print[0].id if by_print else names.pick(key, listed, lambda one: one.name, "SSH key", advice).id
    run.confirm(f"Delete the SSH key {key}?", yes=yes)
    run.done(identity.ssh_key_delete(key_id), f"SSH key {key} is deleted.")
