"""What breaks a client: the differences between a released contract and the one printed now that old clients notice.

Pure, over two OpenAPI or AsyncAPI documents. Requests may ask for less than before, answers may say more; the other way
round is a break. A composed schema (anyOf, oneOf, allOf) that changed at all counts as one, because we cannot tell.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

METHODS = ("get", "put", "post", "patch", "delete")
COMPOSED = ("anyOf", "oneOf", "allOf")
LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
MAX_DEPTH = 20

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Break:
    """`of` is the operation or event a changelog entry must name."""

    of: str
    why: str

    def __str__(self) -> str:
        return f"{self.of}: {self.why}"


def api_breaks(old: Json, new: Json) -> list[Break]:
    """Everything in `new` that a client written for `old` can stumble over."""
    found: list[Break] = []
    for path, method, before in operations(old):
        name = before.get("operationId", f"{method} {path}")
        after = new.get("paths", {}).get(path, {}).get(method)
        if after is None:
            found.append(Break(name, f"{method.upper()} {path} is gone"))
            continue
        if after.get("operationId") != before.get("operationId"):
            found.append(Break(name, f"is now called {after.get('operationId')}"))
        whys = [*parameter_breaks(before, after, old, new), *body_breaks(before, after, old, new)]
        whys += answer_breaks(before, after, old, new)
        found += [Break(name, why) for why in whys]
    return found


def event_breaks(old: Json, new: Json) -> list[Break]:
    """An event is an answer nobody asked for: its messages may only grow."""
    before, after = messages(old), messages(new)
    gone = [Break(name, "is no longer told") for name in before.keys() - after.keys()]
    changed = [
        Break(name, why)
        for name in before.keys() & after.keys()
        for why in schema_breaks(before[name], after[name], old, new, asked=False, where="payload")
    ]
    return sorted(gone + changed, key=str)


def undeclared(breaks: list[Break], changelog: str) -> list[Break]:
    """Those the changelog does not name under *Breaking* of its unreleased part."""
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, flags=re.MULTILINE | re.DOTALL)
    section = re.search(
        r"^### Breaking\n(.*?)(?=^### |\Z)", unreleased[1] if unreleased else "", flags=re.MULTILINE | re.DOTALL
    )
    named = set(re.findall(r"`([^`]+)`", section[1])) if section else set()
    return [broken for broken in breaks if broken.of not in named]


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                yield path, method, methods[method]


def messages(document: Json) -> dict[str, Json]:
    declared = document.get("components", {}).get("messages", {})
    return {name: message.get("payload", {}) for name, message in declared.items()}


def parameter_breaks(before: Json, after: Json, old: Json, new: Json) -> Iterator[str]:
    was = {(p["in"], p["name"]): p for p in (resolve(p, old) for p in before.get("parameters", []))}
    now = {(p["in"], p["name"]): p for p in (resolve(p, new) for p in after.get("parameters", []))}
    for place, name in was.keys() - now.keys():
        yield f"{place} parameter {name} is gone"
    for key, parameter in now.items():
        place, name = key
        if parameter.get("required") and not was.get(key, {}).get("required"):
            yield f"{place} parameter {name} is now required"
        if key in was:
            schemas = was[key].get("schema", {}), parameter.get("schema", {})
            yield from schema_breaks(*schemas, old, new, asked=True, where=f"{place} parameter {name}")


def body_breaks(before: Json, after: Json, old: Json, new: Json) -> Iterator[str]:
    was = resolve(before.get("requestBody", {}), old)
    now = resolve(after.get("requestBody", {}), new)
    if now.get("required") and not was.get("required"):
        yield "a body is now required"
    yield from content_breaks(was, now, old, new, asked=True, where="body")


def answer_breaks(before: Json, after: Json, old: Json, new: Json) -> Iterator[str]:
    for status, response in before.get("responses", {}).items():
        if not status.startswith("2"):
            continue
        if status not in after.get("responses", {}):
            yield f"no longer answers {status}"
            continue
        answers = resolve(response, old), resolve(after["responses"][status], new)
        yield from content_breaks(*answers, old, new, asked=False, where=f"answer {status}")


def content_breaks(was: Json, now: Json, old: Json, new: Json, *, asked: bool, where: str) -> Iterator[str]:
    for kind, media in was.get("content", {}).items():
        if kind not in now.get("content", {}):
            yield f"{where}: no longer {kind}"
            continue
        schemas = media.get("schema", {}), now["content"][kind].get("schema", {})
        yield from schema_breaks(*schemas, old, new, asked=asked, where=where)


def resolve(node: Json, document: Json) -> Json:
    """Follow `$ref` inside its document."""
    for _ in range(MAX_DEPTH):
        if "$ref" not in node:
            return node
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    raise ValueError("a reference that leads nowhere")


def schema_breaks(
    before: Json, after: Json, old: Json, new: Json, *, asked: bool, where: str, depth: int = 0
) -> Iterator[str]:
    """`asked`: what clients send. Else what they receive."""
    was, now = resolve(before, old), resolve(after, new)
    if depth > MAX_DEPTH:
        return
    for keyword in COMPOSED:
        if keyword in was or keyword in now:
            if expanded(was, old) != expanded(now, new):
                yield f"{where}: its alternatives changed"
            return
    if was.get("type") != now.get("type") or was.get("format") != now.get("format"):
        yield f"{where}: was {was.get('type')} {was.get('format', '')}, is {now.get('type')} {now.get('format', '')}"
        return
    if asked:
        yield from narrower(was, now, where)
    yield from property_breaks(was, now, asked=asked, where=where)
    nested = [(f"{where}.{name}", was["properties"][name], now["properties"][name]) for name in shared(was, now)]
    if "items" in was and "items" in now:
        nested.append((f"{where}[]", was["items"], now["items"]))
    for inner, left, right in nested:
        yield from schema_breaks(left, right, old, new, asked=asked, where=inner, depth=depth + 1)


def property_breaks(was: Json, now: Json, *, asked: bool, where: str) -> Iterator[str]:
    required_before, required_now = set(was.get("required", [])), set(now.get("required", []))
    for name in sorted(was.get("properties", {}).keys() - now.get("properties", {}).keys()):
        yield f"{where}.{name} is gone"
    for name in sorted(required_now - required_before if asked else required_before - required_now):
        if asked or name in now.get("properties", {}):
            yield f"{where}.{name} is {'now required' if asked else 'no longer always there'}"


def narrower(was: Json, now: Json, where: str) -> Iterator[str]:
    """What was accepted and is not any more."""
    if "enum" in now and set(was.get("enum", [])) - set(now["enum"]):
        yield f"{where}: no longer accepts {sorted(set(was.get('enum', [])) - set(now['enum']))}"
    if now.get("pattern") != was.get("pattern") and "pattern" in now:
        yield f"{where}: the pattern changed"
    for bound in LOWER_BOUNDS:
        if bound in now and now[bound] > was.get(
            bound, 0 if bound.startswith("min") and bound != "minimum" else -1e300
        ):
            yield f"{where}: {bound} was raised"
    for bound in UPPER_BOUNDS:
        if bound in now and now[bound] < was.get(bound, 1e300):
            yield f"{where}: {bound} was lowered"


def shared(was: Json, now: Json) -> list[str]:
    return sorted(was.get("properties", {}).keys() & now.get("properties", {}).keys())


def expanded(node: Any, document: Json, depth: int = 0) -> Any:
    """The schema with its references followed and its prose left out, for comparing."""
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(node, Mapping):
        target = resolve(node, document)
        prose = {"description", "title", "examples", "example"}
        return {k: expanded(v, document, depth + 1) for k, v in target.items() if k not in prose}
    if isinstance(node, list):
        return [expanded(item, document, depth + 1) for item in node]
    return node
