"""Completion. The shell's part is a few lines that ask `gpuaas __complete`; what can follow is read from the
declarations, and names of organisations, projects, nodes and SKUs from the API, remembered for a minute."""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from gpuaas.client import allocations, artifacts, fleet, identity, inventory
from gpuaas.client.api import Api
from gpuaas.client.call import Call
from gpuaas.client.errors import ClientError
from gpuaas.contracts.http.allocations import AllocationQuery
from gpuaas.contracts.http.artifacts import ArtifactListQuery, ArtifactState
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.inventory import SkuQuery
from gpuaas.contracts.http.nodes import NodeListQuery
from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.kit import clock
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import GLOBAL, Argument, Command, Group
from gpuaas.processes.cli.failures import Stop
from gpuaas.processes.cli.run import Run

GROUP = Group("", "")
_FRESH_SECONDS = 60
_ASK_SECONDS = 1.0
_MAX_NAMES = 500
_OF_THE_FLEET = ("node", "sku", "agent_version")

_BASH = """# bash completion for gpuaas: eval "$(gpuaas completion bash)"
_gpuaas() {
    local IFS=$'\\n' word
    COMPREPLY=()
    while IFS= read -r word; do
        [[ $word == :file ]] && { compopt -o default; continue; }
        COMPREPLY+=("${word%%$'\\t'*}")
    done < <(gpuaas __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
    return 0
}
complete -F _gpuaas gpuaas
"""
_ZSH = """#compdef gpuaas
# zsh completion for gpuaas: eval "$(gpuaas completion zsh)"
_gpuaas() {
    local -a found plain
    local line
    for line in "${(@f)$(gpuaas __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :file ]]; then _files; return; fi
        [[ -z $line ]] && continue
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe -V gpuaas found
}
compdef _gpuaas gpuaas
"""
_FISH = """# fish completion for gpuaas: gpuaas completion fish | source
function __gpuaas_complete
    set -l words (commandline -opc) (commandline -ct)
    gpuaas __complete -- $words[2..-1] 2>/dev/null | string match -v ':file'
end
complete -c gpuaas -f -a '(__gpuaas_complete)'
complete -c gpuaas -l token-file -r -F
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@GROUP.command(
    "completion",
    Argument("shell", choices=tuple(SCRIPTS), help="bash, zsh or fish."),
    summary="Print the completion script of a shell.",
    examples=[
        "echo 'eval \"$(gpuaas completion bash)\"' >> ~/.bashrc",
        "echo 'eval \"$(gpuaas completion zsh)\"' >> ~/.zshrc",
        "gpuaas completion fish > ~/.config/fish/completions/gpuaas.fish",
    ],
)
def completion(run: Run, *, shell: str) -> None:
    run.out.out.write(SCRIPTS[shell])


@GROUP.command(
    "__complete",
    Argument("words", help="The words so far, the last one unfinished.", many=True, optional=True),
    summary="What can follow.",
)
def complete(run: Run, *, words: list[str]) -> None:
    *before, unfinished = words or [""]
    for word, about in candidates(run, before, unfinished):
        if word.startswith(unfinished) or word == ":file":
            run.out.line(word) if not about else run.out.out.write(f"{word}\t{about}\n")


def candidates(run: Run, before: list[str], unfinished: str) -> Iterable[tuple[str, str]]:
    """Words that can follow, with what they mean."""
    from gpuaas.processes.cli.app import SECTIONS, find
    from gpuaas.processes.cli.entry import PROGRAMS

    given: dict[str, object] = {}
    if before and before[0] in PROGRAMS:
        return []
    pending = _awaiting_value(before, GLOBAL)
    if pending is not None:
        return _values(run, pending)
    try:
        _, here, rest = find(before, given)
    except Stop:
        return []
    if here is None:
        if unfinished.startswith("-"):
            return _options(GLOBAL)
        known = {name: told for section in SECTIONS.values() for name, (_, told) in section.items()}
        return [*known.items(), *((name, told) for name, (_, told) in PROGRAMS.items())]
    if isinstance(here, Group):
        return [(name, child.summary) for name, child in here.children.items()]
    return _of_command(run, here, rest, unfinished)


def _of_command(run: Run, command: Command, rest: list[str], unfinished: str) -> Iterable[tuple[str, str]]:
    arguments = (*command.arguments, *GLOBAL)
    pending = _awaiting_value(rest, arguments)
    if pending is not None:
        return _values(run, pending)
    if unfinished.startswith("-"):
        return _options(arguments)
    positional = [argument for argument in command.arguments if not argument.is_option]
    done = _count_positional(rest, arguments)
    if done < len(positional):
        return _values(run, positional[done])
    return _values(run, positional[-1]) if positional and positional[-1].many else []


def _awaiting_value(words: list[str], arguments: Iterable[Argument]) -> Argument | None:
    """The option whose value comes next."""
    if not words:
        return None
    return next((one for one in arguments if one.is_option and not one.flag and words[-1] in one.names), None)


def _count_positional(words: list[str], arguments: Iterable[Argument]) -> int:
    taking = {name for one in arguments if one.is_option and not one.flag for name in one.names}
    count, skip = 0, False
    for word in words:
        if skip:
            skip = False
        elif word in taking:
            skip = True
        elif not word.startswith("-"):
            count += 1
    return count


def _options(arguments: Iterable[Argument]) -> list[tuple[str, str]]:
    return [(one.names[-1], one.help) for one in arguments if one.is_option]


def _values(run: Run, argument: Argument) -> Iterable[tuple[str, str]]:
    if argument.choices:
        return [(choice, "") for choice in argument.choices]
    if argument.completes == "file":
        return [(":file", "")]
    if argument.completes == "policy":
        return [(key.name, key.description) for key in POLICY_KEYS.values()]
    if argument.completes == "context":
        return [(name, context.url) for name, context in run.config_file.read().contexts.items()]
    if argument.completes == "allocation":
        return [(name, "") for name in _allocation_words(run)]
    if argument.completes in _OF_THE_FLEET:
        return [(name, "") for name in _fleet_words(run, argument.completes)]
    known = _names(run)
    if argument.completes == "org":
        return [(name, "") for name in known.orgs]
    if argument.completes == "project":
        return [(name, "") for name in known.projects]
    if argument.completes == "place":
        own = run.context.org.name if run.context.org else ""
        return [*((name, "") for name in known.orgs), *((f"{own}/{name}", "") for name in known.projects if own)]
    return []


def _fleet_words(run: Run, kind: str) -> list[str]:
    """Names of nodes, SKUs or versions of the agent; for who may not see them there are none."""
    asked: dict[str, Callable[[], Call[Any]]] = {
        "node": lambda: fleet.node_list(NodeListQuery(limit=MAX_LIMIT)),
        "sku": lambda: inventory.sku_list(SkuQuery(limit=MAX_LIMIT)),
        "agent_version": lambda: artifacts.artifact_list(
            ArtifactListQuery(limit=MAX_LIMIT, state=ArtifactState.PUBLISHED)
        ),
    }
    call: Call[Page[Any]] = asked[kind]()
    field = "version" if kind == "agent_version" else "name"
    return _words(run, kind, lambda api: [getattr(one, field) for one in api.items(call)])


def _allocation_words(run: Run) -> list[str]:
    """Names of the project's live allocations."""
    try:
        project_id = names.project(run, None)
    except (ClientError, Stop):
        return []
    call = allocations.allocation_list(project_id, AllocationQuery(live=True, limit=MAX_LIMIT))
    return _words(run, f"allocation-{project_id}", lambda api: [one.name for one in api.send(call).items], seconds=5)


def _words(run: Run, kind: str, ask: Callable[[Api], list[str]], *, seconds: int = _FRESH_SECONDS) -> list[str]:
    """Remembered for a while; asked for with a second's patience; an old answer rather than none."""
    path = run.environment.cache_directory / f"names-{kind}.json"
    old = Words(0, run.url, [])
    try:
        read = msgspec.json.decode(path.read_bytes(), type=Words)
        old = read if read.url == run.url else old
    except (OSError, msgspec.MsgspecError):
        pass
    if clock.epoch_s() - old.at < seconds:
        return old.words
    try:
        with Api(run.url, run.credentials, timeout_seconds=_ASK_SECONDS, tries=1) as api:
            found = ask(api)[:_MAX_NAMES]
    except (ClientError, Stop):
        return old.words
    _remember(path, Words(clock.epoch_s(), run.url, found))
    return found


class Words(msgspec.Struct, frozen=True):
    """Names of one kind, as last seen at one API."""

    at: int
    url: str
    words: list[str]


def _remember(path: Path, what: msgspec.Struct) -> None:
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(what))


class Names(msgspec.Struct, frozen=True):
    """What was last seen at one API, in one organisation."""

    at: int
    url: str
    org_id: str
    orgs: list[str]
    projects: list[str]


def _names(run: Run) -> Names:
    """Remembered for a minute; asked for with a second's patience; an old answer rather than none."""
    org_id = run.context.org.id if run.context.org else ""
    path = run.environment.cache_directory / "names.json"
    old = Names(0, run.url, org_id, [], [])
    try:
        read = msgspec.json.decode(path.read_bytes(), type=Names)
        old = read if (read.url, read.org_id) == (run.url, org_id) else old
    except (OSError, msgspec.MsgspecError):
        pass
    if clock.epoch_s() - old.at < _FRESH_SECONDS:
        return old
    try:
        with Api(run.url, run.credentials, timeout_seconds=_ASK_SECONDS, tries=1) as api:
            orgs = api.send(identity.org_list(names.LARGEST_PAGE)).items
            owner = org_id or (str(orgs[0].id) if len(orgs) == 1 else "")
            found = api.send(identity.project_list(names.org(run, owner), names.LARGEST_PAGE)).items if owner else []
    except (ClientError, Stop):
        return old
    fresh = Names(
        clock.epoch_s(), run.url, org_id, [o.name for o in orgs][:_MAX_NAMES], [p.name for p in found][:_MAX_NAMES]
    )
    _remember(path, fresh)
    return fresh
