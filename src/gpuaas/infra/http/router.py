"""From method and path to operation: a tree of path segments, literal before parameter. Costs the path's length, not
the number of operations."""

from typing import Any

Methods = dict[str, Any]
"""What was added, by method."""


class Node:
    __slots__ = ("by_method", "child_by_name", "param", "param_name")

    def __init__(self) -> None:
        self.child_by_name: dict[str, Node] = {}
        self.param: Node | None = None
        self.param_name = ""
        self.by_method: Methods = {}


class Router:
    def __init__(self) -> None:
        self._root = Node()
        self._plain: dict[str, tuple[Methods, list[str]]] = {}

    def add(self, method: str, path: str, target: Any) -> None:
        node, plain = self._root, True
        for segment in path.strip("/").split("/"):
            if segment.startswith("{"):
                plain = False
                node.param = node.param or Node()
                node = node.param
            else:
                node = node.child_by_name.setdefault(segment, Node())
        node.by_method[method] = target
        if plain:
            self._plain[path] = (node.by_method, [])

    def find(self, path: str) -> tuple[Methods, list[str]] | None:
        """The methods at a path, and the values of its parameters in order; None when there is nothing."""
        return self._plain.get(path) or _walk(self._root, path[1:].split("/"), 0, [])


def _walk(node: Node, segments: list[str], at: int, values: list[str]) -> tuple[Methods, list[str]] | None:
    if at == len(segments):
        return (node.by_method, values) if node.by_method else None
    child = node.child_by_name.get(segments[at])
    if child is not None:
        found = _walk(child, segments, at + 1, values)
        if found is not None:
            return found
    if node.param is not None and segments[at]:
        return _walk(node.param, segments, at + 1, [*values, segments[at]])
    return None
