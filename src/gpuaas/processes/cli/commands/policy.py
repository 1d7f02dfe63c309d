"""Policies: what holds in a place, why, and changing it."""

from typing import Any
from uuid import UUID

import msgspec

from gpuaas.client import identity, policy
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.policy import (
    OrgRehearsalQuery,
    PlaceQuery,
    PolicyExplanation,
    PolicyKeyView,
    PolicyRehearsal,
    PolicySet,
    PolicyUnset,
    PolicyView,
    RehearsalQuery,
    Touched,
)
from gpuaas.contracts.policy_keys import Value
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column, show
from gpuaas.processes.cli.run import Run

GROUP = Group("policy", "Policies: every threshold of the product. The nearest to the project wins, up to guardrails.")
NAME = Argument("name", help="The policy, such as identity.invitation_days.", completes="policy")
PROJECT = Argument("--project", help="In this project, by name or id.", completes="project")
EVERYWHERE = Argument("--global", called="everywhere", flag=True, help="For the whole installation (platform admins).")
_PLACE = (ORG, PROJECT, EVERYWHERE)
_MAX_NUMBER_DIGITS = 16


class Place:
    """Where a command looks: a project, else everywhere, else the organisation."""

    def __init__(self, run: Run, org: str | None, project: str | None, everywhere: bool) -> None:
        if everywhere and (org or project):
            raise UsageError("--global is everywhere: it takes neither --org nor --project.")
        self.project = None if project is None else names.project(run, project, org)
        self.org = None if everywhere or self.project is not None else names.org(run, org)


def _origin(view: PolicyView) -> str:
    return f"{view.origin.value}, held by {view.held_by.value}" if view.held_by else view.origin.value


_COLUMNS: list[Column[PolicyView]] = [
    ("name", lambda view: view.name),
    ("value", lambda view: view.value),
    ("unit", lambda view: view.unit),
    ("from", _origin),
    ("guardrail", lambda view: f"{show(view.guardrail.value)} ({view.guardrail.level})" if view.guardrail else ""),
]


@GROUP.command("list", *_PLACE, LIMIT, ALL, summary="List what holds, and where each value comes from.")
def policy_list(run: Run, *, org: str | None, project: str | None, limit: int, all: bool, everywhere: bool) -> None:
    place = Place(run, org, project, everywhere)
    call: Call[Page[PolicyView]]
    if place.project is not None:
        call = policy.policy_project_list(place.project)
    else:
        call = policy.policy_list() if place.org is None else policy.policy_org_list(place.org)
    run.table(call, _COLUMNS, limit=limit, all=all, empty="There are no policies.")


_KEY_COLUMNS: list[Column[PolicyKeyView]] = [
    ("name", lambda key: key.name),
    ("default", lambda key: key.default),
    (
        "bounds",
        lambda key: key.choices or (f"{key.minimum} to {key.maximum}" if key.minimum is not None else "on, off"),
    ),
    ("unit", lambda key: key.unit),
    ("stricter", lambda key: key.stricter),
    ("set at", lambda key: key.levels),
    ("what it says", lambda key: key.description),
]


@GROUP.command("keys", LIMIT, ALL, summary="List the definitions: defaults, bounds, which way is stricter.")
def policy_key_list(run: Run, *, limit: int, all: bool) -> None:
    run.table(policy.policy_key_list(), _KEY_COLUMNS, limit=limit, all=all, empty="There are no policies.")


@GROUP.command("get", NAME, *_PLACE, summary="Read one policy's value.")
def policy_get(run: Run, *, name: str, org: str | None, project: str | None, everywhere: bool) -> None:
    place = Place(run, org, project, everywhere)
    if place.project is not None:
        call = policy.policy_project_get(place.project, name)
    else:
        call = policy.policy_get(name) if place.org is None else policy.policy_org_get(place.org, name)
    run.show(call, _COLUMNS)


@GROUP.command(
    "set",
    NAME,
    Argument("value", help="A number, on or off, or one of the choices."),
    Argument("--guardrail", flag=True, help="No level below may be weaker."),
    REASON,
    *_PLACE,
    summary="Set a policy in a place.",
    examples=[
        "gpuaas policy set identity.invitation_days 3 --reason 'security review'",
        "gpuaas policy set audit.export_allowed off --global --guardrail --reason 'incident 12'",
    ],
)
def policy_set(
    run: Run,
    *,
    name: str,
    value: str,
    guardrail: bool,
    reason: str,
    org: str | None,
    project: str | None,
    everywhere: bool,
) -> None:
    place = Place(run, org, project, everywhere)
    wanted = PolicySet(value=parsed(value), guardrail=guardrail, reason=reason)
    if place.project is not None:
        call = policy.policy_project_set(place.project, name, wanted)
    elif place.org is None:
        call = policy.policy_set(name, wanted)
    else:
        call = policy.policy_org_set(place.org, name, wanted)
    run.show(call, _COLUMNS)


@GROUP.command("unset", NAME, REASON, *_PLACE, YES, summary="Take away what is set in a place.")
def policy_unset(
    run: Run, *, name: str, reason: str, org: str | None, project: str | None, yes: bool, everywhere: bool
) -> None:
    place = Place(run, org, project, everywhere)
    run.confirm(f"Take away what is set for {name} here? What is above holds again.", yes=yes)
    why = PolicyUnset(reason=reason)
    if place.project is not None:
        call = policy.policy_project_unset(place.project, name, why)
    elif place.org is None:
        call = policy.policy_unset(name, why)
    else:
        call = policy.policy_org_unset(place.org, name, why)
    run.show(call, _COLUMNS)


@GROUP.command("explain", NAME, *_PLACE, summary="Say where a value comes from: every level, who set it and why.")
def policy_explain(run: Run, *, name: str, org: str | None, project: str | None, everywhere: bool) -> None:
    place = Place(run, org, project, everywhere)
    call: Call[PolicyExplanation]
    if place.project is not None:
        call = policy.policy_project_explain(place.project, name)
    elif place.org is None:
        call = policy.policy_explain(name, PlaceQuery())
    else:
        call = policy.policy_org_explain(place.org, name)
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    told = decode(call, body)
    run.out.line(told.sentence)
    run.out.line("")
    run.out.table(
        [
            ("", lambda layer: "→" if layer.decides else " "),
            ("level", lambda layer: layer.level),
            ("value", lambda layer: layer.value),
            ("guardrail", lambda layer: "yes" if layer.guardrail else ""),
            ("note", lambda layer: "weaker than a guardrail above" if layer.too_weak else ""),
            ("set by", lambda layer: layer.set_by),
            ("set at", lambda layer: layer.set_at),
            ("reason", lambda layer: layer.reason),
        ],
        told.layers,
        empty="Nothing is set anywhere.",
    )


_TOUCHED: list[Column[Touched]] = [
    ("organisation", lambda place: place.org_name),
    ("project", lambda place: place.project_name),
    ("now", lambda place: place.before),
    ("then", lambda place: place.after),
    ("held by", lambda place: place.held_by),
]


@GROUP.command(
    "rehearse",
    NAME,
    Argument("value", help="The value to try; left out: what is set here is taken away.", optional=True),
    Argument("--guardrail", flag=True, help="As a guardrail."),
    *_PLACE,
    summary="Say whom a change would touch, without making it.",
)
def policy_rehearse(
    run: Run, *, name: str, value: str | None, guardrail: bool, org: str | None, project: str | None, everywhere: bool
) -> None:
    place = Place(run, org, project, everywhere)
    call = _rehearsal(run, place, name, value, guardrail)
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    told = decode(call, body)
    run.out.line(
        f"{told.name}: {show(told.before)} → {show(told.after)}; touches {_count(told.touched_orgs, 'organisation')} "
        f"and {_count(told.touched_projects, 'project')}. Nothing was changed."
    )
    if told.items:
        run.out.line("")
        run.out.table(_TOUCHED, told.items, empty="")
    if told.next_cursor:
        run.out.note(f"These are the first {len(told.items)}.")


def _rehearsal(run: Run, place: Place, name: str, value: str | None, guardrail: bool) -> Call[PolicyRehearsal]:
    asked: dict[str, Any] = {"limit": 200, "value": None if value is None else _text(value), "guardrail": guardrail}
    if place.project is not None:
        org_id: UUID = run.api.send(identity.project_get(place.project)).org_id
        return policy.policy_org_rehearse(org_id, name, OrgRehearsalQuery(**asked, project_id=place.project))
    if place.org is None:
        return policy.policy_rehearse(name, RehearsalQuery(**asked))
    return policy.policy_org_rehearse(place.org, name, OrgRehearsalQuery(**asked))


def _count(how_many: int, noun: str) -> str:
    return f"{how_many} {noun}" + ("" if how_many == 1 else "s")


def parsed(text: str) -> Value:
    """What was typed, as the type it looks like; the API checks it against the key."""
    switch = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    if text.lower() in switch:
        return switch[text.lower()]
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_NUMBER_DIGITS:
        return int(text)
    return text


def _text(typed: str) -> str:
    value = parsed(typed)
    return msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
