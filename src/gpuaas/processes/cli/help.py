"""Help texts, drawn from the declarations."""

from gpuaas.processes.cli.declare import GLOBAL, Argument, Command, Group

_WIDTH = 96


def table(rows: list[tuple[str, str]], *, indent: int = 2, width: int = 0) -> list[str]:
    """Two columns; a long right side is folded under itself."""
    column = width or min(max((len(left) for left, _ in rows), default=0), 30)
    lines = []
    for left, right in rows:
        folded = fold(right, _WIDTH - column - indent - 2)
        head = f"{'':{indent}}{left:{column}}  "
        if len(left) > column:
            lines.append(f"{'':{indent}}{left}")
            head = " " * (indent + column + 2)
        lines.append((head + (folded[0] if folded else "")).rstrip())
        lines += [" " * (indent + column + 2) + rest for rest in folded[1:]]
    return lines


def fold(text: str, width: int) -> list[str]:
    lines, current = [], ""
    for word in text.split():
        if current and len(current) + 1 + len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}".strip()
    return [*lines, current] if current else lines


def group_help(path: str, group: Group) -> str:
    lines = [f"Usage: {path} COMMAND [OPTIONS]", "", *fold(group.summary, _WIDTH)]
    groups = [(name, child.summary) for name, child in group.children.items() if isinstance(child, Group)]
    commands = [(name, child.summary) for name, child in group.children.items() if isinstance(child, Command)]
    width = max(len(name) for name in group.children)
    if commands:
        lines += ["", "Commands:", *table(commands, width=width)]
    if groups:
        lines += ["", "Groups:", *table(groups, width=width)]
    return "\n".join([*lines, "", f"{path} COMMAND --help says more about one."])


def command_help(path: str, command: Command) -> str:
    positional = [argument for argument in command.arguments if not argument.is_option]
    options = [argument for argument in command.arguments if argument.is_option]
    words = [path, *(_positional(argument) for argument in positional)]
    words += [_required(option) for option in options if option.required]
    words += ["[OPTIONS]"]
    lines = [f"Usage: {' '.join(words)}", "", *fold(command.summary, _WIDTH)]
    for paragraph in command.about.split("\n\n") if command.about else ():
        lines += ["", *fold(paragraph, _WIDTH)]
    if positional:
        lines += ["", "Arguments:", *table([(argument.metavar, _told(argument)) for argument in positional])]
    if options:
        lines += ["", "Options:", *table([(_option(option), _told(option)) for option in options])]
    lines += ["", "Options of every command:", *table([(_option(option), _told(option)) for option in GLOBAL])]
    if command.examples:
        lines += ["", "Examples:", *(f"  {example}" for example in command.examples)]
    return "\n".join(lines)


def _positional(argument: Argument) -> str:
    word = argument.metavar.upper() + ("…" if argument.many else "")
    return f"[{word}]" if argument.optional else word


def _required(option: Argument) -> str:
    return f"{option.names[-1]} {option.metavar}"


def _option(option: Argument) -> str:
    names = ", ".join(option.names)
    if option.flag:
        return names
    return f"{names} {'|'.join(option.choices) if option.choices else option.metavar}"


def _told(argument: Argument) -> str:
    return argument.help + (" Required." if argument.required else "")
