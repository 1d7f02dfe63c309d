"""JSON schemas as people read them: tables of fields, and an example that fits."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gpuaas.infra.http.html import text

Schema = dict[str, Any]
MAX_DEPTH = 4
_EXAMPLE_ID = "0199c0de-7a11-7000-8000-000000000001"


class Schemas:
    """The components of a contract."""

    def __init__(self, document: Schema) -> None:
        self._known: dict[str, Schema] = document["components"]["schemas"]

    def resolve(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return schema if reference is None else self._known[str(reference).rsplit("/", 1)[-1]]

    def fields(self, schema: Schema, *, asked: bool) -> str:
        """An object's fields as a table; '' for what has none. Only of what is asked it matters what is required."""
        rows = "".join(self._rows(schema, "", 0, asked))
        if not rows:
            return ""
        return (
            '<div class="scroll"><table class="fields"><thead><tr><th>Field<th>Type<th>Meaning</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _rows(self, schema: Schema, prefix: str, depth: int, asked: bool) -> Iterator[str]:
        inner, suffix = self._object(schema)
        if inner is None or depth > MAX_DEPTH:
            return
        required = inner.get("required", [])
        for name, field in inner.get("properties", {}).items():
            path = f"{prefix}{suffix}{'.' if prefix or suffix else ''}{name}"
            need = '<span class="need">required</span>' if asked and name in required else ""
            yield (f"<tr><td><code>{text(path)}</code>{need}<td>{self.kind(field)}<td>{self.meaning(field)}</tr>")
            yield from self._rows(field, path, depth + 1, asked)

    def _object(self, schema: Schema) -> tuple[Schema | None, str]:
        """The object inside of a schema: itself, an item of a list, or what may also be null."""
        found = self.resolve(schema)
        if "properties" in found:
            return found, ""
        if found.get("type") == "array":
            return self._object(found.get("items", {}))[0], "[]"
        for branch in found.get("anyOf", []):
            inner, suffix = self._object(branch)
            if inner is not None:
                return inner, suffix
        return None, ""

    def kind(self, schema: Schema) -> str:
        found = self.resolve(schema)
        if "anyOf" in found:
            return " or ".join(dict.fromkeys(self.kind(branch) for branch in found["anyOf"]))
        if "enum" in found:
            return " | ".join(f"<code>{text(value)}</code>" for value in found["enum"])
        if "const" in found:
            return f"<code>{text(found['const'])}</code>"
        kind = found.get("type", "any")
        if kind == "array":
            return f"list of {self.kind(found.get('items', {}))}"
        return text(found.get("format") or kind)

    def meaning(self, schema: Schema) -> str:
        """What it says, and within which bounds."""
        found = {**self.resolve(schema), **schema}
        plain: Schema = next((b for b in found.get("anyOf", []) if b.get("type") not in {None, "null"}), {})
        bounds = {**plain, **{key: value for key, value in found.items() if key != "anyOf"}}
        words = [text(bounds["description"])] if "description" in bounds and "properties" not in bounds else []
        words += list(_bounds(bounds))
        return " ".join(words)

    def example(self, schema: Schema, depth: int = 0) -> Any:
        """A value that fits the schema."""
        found = {**self.resolve(schema), **schema}
        if found.get("examples"):
            return found["examples"][0]
        if found.get("default") is not None:
            return found["default"]
        if "anyOf" in found:
            return self.example(found["anyOf"][0], depth)
        if "enum" in found:
            return found["enum"][-1]
        if "properties" in found and depth < MAX_DEPTH:
            needed = found.get("required", [])
            chosen = needed or list(found["properties"])[:1]
            return {name: self.example(found["properties"][name], depth + 1) for name in chosen}
        if found.get("type") == "array":
            return [self.example(found.get("items", {}), depth + 1)]
        return _PLAIN.get(str(found.get("format") or found.get("type")), "…")

    def example_json(self, schema: Schema) -> str:
        return msgspec.json.format(msgspec.json.encode(self.example(schema)), indent=2).decode()


_PLAIN: dict[str, Any] = {
    "uuid": _EXAMPLE_ID,
    "date-time": "2030-01-01T00:00:00Z",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "object": {},
    "null": None,
}


def _bounds(found: Schema) -> Iterator[str]:
    low, high = found.get("minimum"), found.get("maximum")
    if low is not None or high is not None:
        yield f'<span class="bound">{text(_range(low, high))}</span>'
    shortest, longest = found.get("minLength"), found.get("maxLength")
    if longest is not None:
        yield f'<span class="bound">{text(_range(shortest or 0, longest))} characters</span>'
    if found.get("type") == "array" and "maxItems" in found:
        yield f'<span class="bound">{found["maxItems"]} at most</span>'
    pattern = found.get("pattern")
    if pattern and len(pattern) <= 60 and "description" not in found:
        yield f'<span class="bound"><code>{text(pattern)}</code></span>'
    if found.get("default") is not None:
        yield f'<span class="bound">default <code>{text(msgspec.json.encode(found["default"]).decode())}</code></span>'


def _range(low: object, high: object) -> str:
    if low is None:
        return f"≤ {high}"
    return f"≥ {low}" if high is None else f"{low} – {high}"
