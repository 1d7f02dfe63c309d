"""How commands are declared: a tree of groups and commands, each with its arguments. Parsing, help and completion all
come from the declaration. Stands on the standard library alone, because `--help` must be quick."""

from collections.abc import Callable, Sequence
from typing import Any

Runner = Callable[..., None]


class Argument:
    """A positional argument, or an option when its name begins with a dash."""

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str = "",
        kind: Callable[[str], Any] | None = None,
        choices: Sequence[str] = (),
        default: Any = None,
        flag: bool = False,
        many: bool = False,
        optional: bool = False,
        required: bool = False,
        completes: str = "",
        called: str = "",
    ) -> None:
        self.names = names
        self.help = help
        self.kind = kind
        self.choices = tuple(choices)
        self.default = default
        self.flag = flag
        self.many = many
        self.optional = optional
        self.required = required
        self.completes = completes
        """What its value names: 'org', 'project', 'node', 'sku', 'allocation', 'context' or 'file'; completion asks."""
        word = names[-1].lstrip("-")
        self.destination = called or word.replace("-", "_")
        self.metavar = metavar or (word if not self.is_option else word.upper())

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")


class Command:
    def __init__(
        self,
        name: str,
        run: Runner,
        summary: str,
        arguments: Sequence[Argument],
        *,
        about: str,
        examples: Sequence[str],
    ) -> None:
        self.name = name
        self.run = run
        self.summary = summary
        self.arguments = tuple(arguments)
        self.about = about
        self.examples = tuple(examples)


class Group:
    def __init__(self, name: str, summary: str) -> None:
        self.name = name
        self.summary = summary
        self.children: dict[str, Group | Command] = {}

    def group(self, name: str, summary: str) -> "Group":
        child = Group(name, summary)
        self.children[name] = child
        return child

    def command(
        self, name: str, *arguments: Argument, summary: str, about: str = "", examples: Sequence[str] = ()
    ) -> Callable[[Runner], Runner]:
        """Declare the function below as this command. It takes a `Run` and its arguments by name."""

        def declare(run: Runner) -> Runner:
            self.children[name] = Command(name, run, summary, arguments, about=about, examples=examples)
            return run

        return declare


def number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        from argparse import ArgumentTypeError  # loaded already, by what parses

        raise ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


# ── what every command takes ─────────────────────────────────────────────────────────────────────

GLOBAL = (
    Argument(
        "-o",
        "--output",
        choices=("table", "json"),
        help="Tables for people, or the API's own JSON. Default: table.",
    ),
    Argument("--url", help="The API to talk to. Default: GPUAAS_URL, else the current context."),
    Argument("--context", help="Use this saved context. Default: GPUAAS_CONTEXT.", completes="context"),
    Argument("--token-file", help="Read the credential (a service-account key) from this file.", completes="file"),
    Argument("--plain-http", flag=True, help="Allow plain http to another machine."),
    Argument("--debug", flag=True, help="Show the stack trace when something fails."),
)
ORG = Argument("--org", help="Organisation, by name or id. Default: the one chosen by `gpuaas use`.", completes="org")
PROJECT = Argument(
    "--project", help="Project, by name or id. Default: the one chosen by `gpuaas use`.", completes="project"
)
LIMIT = Argument("--limit", kind=number, default=200, help="Show so many at most. Default: 200.")
ALL = Argument("--all", flag=True, help="Show all of them.")
YES = Argument("-y", "--yes", flag=True, help="Do not ask.")
REASON = Argument("--reason", help="Why; it goes into the audit log.", required=True)
