"""The client's commands by name, and the way from a command line to the command it means. A group's module is imported
when it is asked for; `--help` imports none of them."""

import sys
from importlib import import_module
from typing import NoReturn

from gpuaas import __version__
from gpuaas.processes.cli.declare import GLOBAL, Argument, Command, Group
from gpuaas.processes.cli.entry import PROGRAMS
from gpuaas.processes.cli.failures import Exit, Stop, UsageError, report

_COMMANDS = "gpuaas.processes.cli.commands"
# section → name → (module, one line for --help). A module holds its group or command as GROUP, or by name in COMMANDS.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "You": {
        "login": ("session", "Log in: in the browser, or with --device from a machine without one."),
        "logout": ("session", "End the session here and at the issuer."),
        "whoami": ("session", "Show who you are and where you belong."),
        "keys": ("keys", "Your SSH public keys."),
        "notifications": ("notifications", "What you were told, and what you want by email."),
        "use": ("context", "Choose the organisation and project commands act in."),
        "context": ("context", "The APIs you use, each with its session and choice."),
    },
    "Organisations": {
        "orgs": ("orgs", "Organisations."),
        "projects": ("projects", "Projects of an organisation."),
        "members": ("members", "Who is in an organisation or project, with which role."),
        "invitations": ("invitations", "Invite people by email; accept an invitation."),
        "service-accounts": ("service_accounts", "Machine identities, their keys and what they may call."),
        "policy": ("policy", "Policies: what holds here, and where its value comes from."),
        "audit": ("audit", "The audit log: list and export."),
        "billing": ("billing", "What you have, what changed it, and what is set aside."),
    },
    "GPUs": {
        "skus": ("skus", "What can be had, and at which price."),
        "allocations": ("allocations", "GPUs of your own: ask for them, use them, give them back."),
        "certificates": ("certificates", "Proofs that GPUs were cleaned after you; checked without us."),
        "queue": ("queue", "Who waits for GPUs, and who comes before whom."),
        "quotas": ("quotas", "How many GPUs of each model may be held at once."),
        "nodes": ("nodes", "GPU hosts: enrol, look at, cordon, drain, check and remove them."),
    },
    "Operating it": {
        "ops": ("ops", "Health, proofs, dead letters, users and credentials of the installation."),
    },
    "This tool": {
        "completion": ("completion", "Completion for bash, zsh or fish."),
        "version": ("version", "Show the versions of this tool and of the API."),
    },
}
HIDDEN = {"__complete": ("completion", "")}


def main() -> NoReturn:
    arguments = sys.argv[1:]
    try:
        sys.exit(dispatch(arguments))
    except BrokenPipeError:
        # The reader went away (`| head`). Nothing more to say, and nothing to flush.
        sys.stderr.close()
        sys.exit(Exit.FAILURE)


def dispatch(arguments: list[str]) -> Exit:
    given: dict[str, object] = {}
    try:
        path, found, rest = find(arguments, given)
        if found is None:
            print(top_help())
            return Exit.OK
        if isinstance(found, Group):
            from gpuaas.processes.cli.help import group_help

            print(group_help(path, found))
            return Exit.OK if _asks_help(rest) else _missing_command(path)
        if _asks_help(rest[: rest.index("--")] if "--" in rest else rest):
            from gpuaas.processes.cli.help import command_help

            print(command_help(path, found))
            return Exit.OK
        from gpuaas.processes.cli.parse import parse

        return execute(found, parse(path, found, rest, given))
    except (Stop, KeyboardInterrupt) as error:
        return report(error, sys.stderr)


def _asks_help(words: list[str]) -> bool:
    return "-h" in words or "--help" in words


def _missing_command(path: str) -> Exit:
    return report(UsageError(f"{path} needs a command: they are above."), sys.stderr)


def execute(command: Command, given: dict[str, object]) -> Exit:
    """Run it; whatever goes wrong becomes a sentence and an exit code."""
    from gpuaas.processes.cli.run import Options, Run
    from gpuaas.processes.cli.settings import read_environment

    names = {option.destination for option in GLOBAL}
    options = Options({name: value for name, value in given.items() if name in names})
    run = Run(read_environment(), options)
    try:
        command.run(run, **{name: value for name, value in given.items() if name not in names})
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 # a user never reads a stack trace unasked
        if options.debug:
            import traceback

            traceback.print_exc()
        return report(error, sys.stderr)
    else:
        return Exit.OK
    finally:
        run.close()


def find(arguments: list[str], given: dict[str, object]) -> tuple[str, "Group | Command | None", list[str]]:
    """Walk down the tree; options that every command takes may stand anywhere, and are put into `given`."""
    rest, path = list(arguments), "gpuaas"
    here: Group | Command | None = None
    while not isinstance(here, Command) and rest:
        word = rest[0]
        if word in {"-h", "--help"}:
            return path, here, rest
        if here is None and word == "--version":
            word = rest[0] = "version"
        if word.startswith("-"):
            rest = _global_option(rest, given)
            continue
        here = _child(here, path, word)
        path, rest = f"{path} {word}", rest[1:]
    return path, here, rest


def _child(here: Group | None, path: str, word: str) -> "Group | Command":
    if here is not None:
        if word not in here.children:
            raise unknown(path, word, list(here.children))
        return here.children[word]
    return top_level(word)


def top_level(word: str) -> "Group | Command":
    known = {name: told for section in SECTIONS.values() for name, told in section.items()} | HIDDEN
    if word in PROGRAMS:
        raise UsageError(f"{word} is a program: its name comes first.", f"Run: gpuaas {word}")
    if word not in known:
        raise unknown("gpuaas", word, [*known, *PROGRAMS])
    module = import_module(f"{_COMMANDS}.{known[word][0]}")
    found: Group = module.GROUP
    return found if found.name == word else found.children[word]


def unknown(path: str, word: str, known: list[str]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1)
    advice = f"Did you mean {near[0]}?" if near else f"See: {path} --help"
    return UsageError(f"{path} has no command {word!r}.", advice)


def _global_option(rest: list[str], given: dict[str, object]) -> list[str]:
    """Take one option that stands before the command."""
    name, equals, value = rest[0].partition("=")
    option = next((option for option in GLOBAL if name in option.names), None)
    if option is None:
        raise UsageError(f"{name} is not an option that can stand before a command.", "See: gpuaas --help")
    if option.flag:
        given[option.destination] = True
        return rest[1:]
    if not equals and len(rest) < 2:
        raise UsageError(f"{name} needs a value.")
    given[option.destination] = check_choice(option, value if equals else rest[1])
    return rest[1:] if equals else rest[2:]


def check_choice(option: Argument, value: str) -> str:
    if option.choices and value not in option.choices:
        raise UsageError(f"{option.names[-1]} is {' or '.join(option.choices)}, not {value!r}.")
    return value


def top_help() -> str:
    from gpuaas.processes.cli.help import table

    lines = [f"GPUaaS {__version__}: a rack of GPU servers as a cloud.", "", "Usage: gpuaas COMMAND [OPTIONS]"]
    width = max(len(name) for section in (*SECTIONS.values(), PROGRAMS) for name in section)
    for title, section in SECTIONS.items():
        lines += ["", f"{title}:", *table([(name, told) for name, (_, told) in section.items()], width=width)]
    lines += ["", "Programs:", *table([(name, told) for name, (_, told) in PROGRAMS.items()], width=width)]
    lines += ["", "gpuaas COMMAND --help says more about one; every command takes --output json."]
    return "\n".join(lines)
