"""The keys that seal sensitive fields."""

from gpuaas.client import data_keys
from gpuaas.client.api import decode
from gpuaas.contracts.http.data_keys import DataKeyRotate, DataKeyView
from gpuaas.processes.cli.declare import REASON, Group
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("data-keys", "The keys that seal sensitive fields at rest.")
_COLUMNS: list[Column[DataKeyView]] = [
    ("key", lambda key: key.id),
    ("state", lambda key: "current" if key.retired_at is None else "retired"),
    ("made", lambda key: key.created_at),
    ("retired", lambda key: key.retired_at),
    ("fields it seals", lambda key: key.sealed_fields),
]


@GROUP.command("list", summary="List the keys, newest first, and how much each still seals.")
def data_key_list(run: Run) -> None:
    _show(run, rotate=None)


@GROUP.command(
    "rotate",
    REASON,
    summary="Seal with a new key from now on.",
    about="What older keys have sealed is sealed anew within minutes: look with `gpuaas ops data-keys list`.",
)
def data_key_rotate(run: Run, *, reason: str) -> None:
    _show(run, rotate=DataKeyRotate(reason=reason))


def _show(run: Run, *, rotate: DataKeyRotate | None) -> None:
    call = data_keys.data_key_list() if rotate is None else data_keys.data_key_rotate(rotate)
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
    else:
        run.out.table(_COLUMNS, decode(call, body).keys, empty="No keys yet: the first allocation makes one.")
