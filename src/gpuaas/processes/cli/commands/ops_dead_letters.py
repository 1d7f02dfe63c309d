"""Events a consumer could not handle."""

from uuid import UUID

import msgspec

from gpuaas.client import platform
from gpuaas.client.api import decode
from gpuaas.contracts.http.outbox import DeadLetterDetail, DeadLetterDiscard, DeadLetterQuery, DeadLetterView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.text import clean_json

GROUP = Group("dead-letters", "Events a consumer could not handle: look, mend the cause, then replay; or discard.")
_ID = Argument("id", help="The dead letter's id.")
_STATES = ("open", "replaying", "resolved", "discarded")
_COLUMNS: list[Column[DeadLetterView]] = [
    ("id", lambda letter: letter.id),
    ("event", lambda letter: letter.event_name),
    ("consumer", lambda letter: letter.consumer),
    ("state", lambda letter: letter.state),
    ("tries", lambda letter: letter.attempts),
    ("since", lambda letter: letter.created_at),
    ("reason", lambda letter: letter.reason),
]
_DETAIL: list[Column[DeadLetterView]] = [
    *_COLUMNS,
    ("state since", lambda letter: letter.state_since),
    ("note", lambda letter: letter.note),
    ("event id", lambda letter: letter.event_id),
    ("organisation", lambda letter: letter.org_id),
    ("correlation id", lambda letter: letter.correlation_id),
]


def letter_id(word: str) -> UUID:
    found = names.as_id(word)
    if found is None:
        raise UsageError(f"{word!r} is not an id.", "See them with: gpuaas ops dead-letters list")
    return found


@GROUP.command(
    "list",
    Argument("--state", choices=_STATES, help="Only those in this state."),
    Argument("--consumer", help="Only those of this consumer."),
    LIMIT,
    ALL,
    summary="List dead letters, oldest first.",
)
def dead_letter_list(run: Run, *, state: str | None, consumer: str | None, limit: int, all: bool) -> None:
    query = msgspec.convert({"state": state, "consumer": consumer}, DeadLetterQuery)
    run.table(platform.dead_letter_list(query), _COLUMNS, limit=limit, all=all, empty="No dead letters.")


@GROUP.command("show", _ID, summary="Show why it failed, and the event itself.")
def dead_letter_get(run: Run, *, id: str) -> None:
    call = platform.dead_letter_get(letter_id(id))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    letter: DeadLetterDetail = decode(call, body)
    run.out.fields([(name, value(letter)) for name, value in _DETAIL])
    if letter.event is None:
        run.out.note("The event itself is past its retention.")
        return
    payload = msgspec.json.format(msgspec.json.encode(letter.event.payload)).decode()
    run.out.out.write(f"\n{clean_json(payload)}\n")


@GROUP.command("replay", _ID, summary="Have the event delivered to its consumer once more.")
def dead_letter_replay(run: Run, *, id: str) -> None:
    run.show(platform.dead_letter_replay(letter_id(id)), _COLUMNS)


@GROUP.command("discard", _ID, REASON, YES, summary="Decide that this consumer never handles the event.")
def dead_letter_discard(run: Run, *, id: str, reason: str, yes: bool) -> None:
    found = letter_id(id)
    run.confirm(f"Discard the dead letter {id}? Its consumer will never handle the event.", yes=yes)
    run.show(platform.dead_letter_discard(found, DeadLetterDiscard(reason=reason)), _COLUMNS)
