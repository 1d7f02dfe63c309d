"""/api/docs: the contract for people to browse, drawn from the same document that programs read."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gpuaas.contracts.error_codes import CATALOGUE
from gpuaas.infra.http.docs_schema import Schemas
from gpuaas.infra.http.html import HtmlPage, html_page, text

_TAGS = {
    "orgs": "Organisations",
    "projects": "Projects",
    "members": "Members",
    "invitations": "Invitations",
    "service_accounts": "Service accounts",
    "ssh_keys": "SSH keys",
    "users": "Users",
    "sessions": "Logins and sessions",
    "issuer": "Built-in issuer",
    "policy": "Policy",
    "audit": "Audit",
    "outbox": "Dead letters",
    "admin": "Platform",
    "ops": "Fleet",
    "nodes": "Nodes",
    "slots": "Slots",
    "skus": "SKUs and prices",
    "tasks": "Node tasks",
    "pki": "Certificate authority",
}
_SCOPES = {
    "public": "anyone",
    "user": "the caller",
    "org": "an organisation",
    "project": "a project",
    "platform": "the whole installation",
    "agent": "a node's agent",
}
_METHODS = ("get", "post", "put", "patch", "delete")


class _Operation:
    def __init__(self, path: str, method: str, told: dict[str, Any]) -> None:
        self.path = path
        self.method = method.upper()
        self.told = told
        self.id: str = told["operationId"]
        self.tag: str = told["tags"][0]


def docs_page(document: dict[str, Any]) -> HtmlPage:
    """The page for an OpenAPI document of ours."""
    schemas = Schemas(document)
    by_tag: dict[str, list[_Operation]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = _Operation(path, method, _with_refusals(document, methods[method]))
                by_tag[operation.tag].append(operation)
    tags = sorted(by_tag, key=lambda tag: (list(_TAGS).index(tag) if tag in _TAGS else len(_TAGS), tag))
    info = document["info"]
    content = (
        f'<a class="skip" href="#main">Skip to the operations</a>'
        f"<header><h1><a href='/'>GPUaaS</a> API <small>{text(info['version'])}</small></h1>"
        '<label class="filter"><span class="unseen">Filter operations</span><input id="filter" type="search" '
        'placeholder="Filter: a word, a path, a permission ( / )" autocomplete="off" spellcheck="false"></label>'
        '<nav class="top"><a href="/api/openapi.json">openapi.json</a><a href="#errors">Errors</a></nav></header>'
        f'<div class="columns"><nav class="side" aria-label="Operations">{"".join(_side(by_tag, tags))}</nav>'
        f'<main id="main">{_intro(info)}<p id="none" hidden>No operation fits the filter.</p>'
        + "".join(_section(schemas, tag, by_tag[tag]) for tag in tags)
        + _errors(by_tag)
        + "</main></div>"
    )
    return html_page("GPUaaS API", content, style="docs.css", script="docs.js")


def title_of(tag: str) -> str:
    return _TAGS.get(tag, tag.replace("_", " ").capitalize())


def _intro(info: dict[str, Any]) -> str:
    return (
        f'<section class="intro"><p>{text(info["description"].partition(". ")[0])}.</p><ul>'
        "<li>Send <code>Authorization: Bearer …</code> with an access token (<code>gpuaas login</code>) or a "
        "service account’s key."
        "<li>Every change takes an <code>Idempotency-Key</code>; sent again with the same key, the same answer comes "
        "back and nothing happens twice."
        "<li>Lists come in pages: pass <code>next_cursor</code> of one as <code>cursor</code> for the next."
        "<li>Every answer has <code>X-Correlation-Id</code>; say it when you ask for help."
        "</ul></section>"
    )


def _side(by_tag: dict[str, list[_Operation]], tags: list[str]) -> Iterator[str]:
    for tag in tags:
        name = text(tag)
        yield f'<div class="tag" data-tag="{name}"><a class="tagname" href="#tag-{name}">{title_of(tag)}</a><ul>'
        for operation in by_tag[tag]:
            yield (
                f'<li data-op="{text(operation.id)}"><a href="#{text(operation.id)}">{_method(operation.method)}'
                f"<span>{text(operation.id).replace('_', '_<wbr>')}</span></a></li>"
            )
        yield "</ul></div>"


def _method(method: str) -> str:
    return f'<b class="m {method.lower()}">{"DEL" if method == "DELETE" else method}</b>'


def _section(schemas: Schemas, tag: str, operations: list[_Operation]) -> str:
    drawn = "".join(_operation(schemas, operation) for operation in operations)
    return (
        f'<section class="group" data-tag="{text(tag)}"><h2 id="tag-{text(tag)}">{title_of(tag)}</h2>{drawn}</section>'
    )


def _operation(schemas: Schemas, operation: _Operation) -> str:
    told = operation.told
    words = f"{operation.id} {operation.method} {operation.path} {told['summary']} {told['x-permission']}".lower()
    path = re.sub(r"\{(\w+)\}", r"<i>{\1}</i>", text(operation.path))
    description = "".join(f"<p>{_prose(part)}</p>" for part in told.get("description", "").split("\n\n") if part)
    return (
        f'<details class="op" id="{text(operation.id)}" data-words="{text(words)}">'
        f'<summary>{_method(operation.method)}<code class="path">{path}</code>'
        f'<span class="sum">{_prose(told["summary"])}</span></summary>'
        f'<div class="body">{description}{_facts(operation)}{_parameters(schemas, operation)}'
        f"{_request(schemas, operation)}{_answer(schemas, operation)}{_refusals(operation)}{_curl(schemas, operation)}"
        "</div></details>"
    )


def _prose(sentence: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(sentence))


def _facts(operation: _Operation) -> str:
    told = operation.told
    facts = [
        ("Operation", f"<code>{text(operation.id)}</code>"),
        ("Permission", "none" if told["x-permission"] == "none" else f"<code>{text(told['x-permission'])}</code>"),
        ("Acts on", text(_SCOPES.get(told["x-scope"], told["x-scope"]))),
        ("Rate lane", f"<code>{text(told['x-rate-lane'])}</code>"),
    ]
    if "x-audit-action" in told:
        facts.append(("Audited as", f"<code>{text(told['x-audit-action'])}</code>"))
    return '<dl class="facts">' + "".join(f"<div><dt>{name}<dd>{value}</div>" for name, value in facts) + "</dl>"


def _parameters(schemas: Schemas, operation: _Operation) -> str:
    parameters = [one for one in operation.told["parameters"] if one["name"] != "Idempotency-Key"]
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><td><code>{text(one['name'])}</code>"
        f"{'<span class=need>required</span>' if one['required'] else ''}<td>{text(one['in'])}"
        f"<td>{schemas.kind(one['schema'])}<td>{_told(schemas, one)}</tr>"
        for one in parameters
    )
    return (
        '<h3>Parameters</h3><div class="scroll"><table class="fields"><thead><tr><th>Name<th>In<th>Type<th>Meaning'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _told(schemas: Schemas, parameter: dict[str, Any]) -> str:
    meaning = schemas.meaning(parameter["schema"])
    said = text(parameter.get("description", ""))
    return meaning if not said or said in meaning else f"{said} {meaning}"


def _request(schemas: Schemas, operation: _Operation) -> str:
    if "requestBody" not in operation.told:
        return ""
    schema = operation.told["requestBody"]["content"]["application/json"]["schema"]
    example = text(schemas.example_json(schema))
    return f"<h3>Request</h3>{schemas.fields(schema, asked=True)}<pre><code>{example}</code></pre>"


def _with_refusals(document: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The operation with its refusals written out, which the contract tells once for all."""
    shared = document["components"]["responses"]
    responses = {
        status: shared[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
        for status, answer in told["responses"].items()
    }
    return told | {"responses": responses}


def _answer(schemas: Schemas, operation: _Operation) -> str:
    status = next(code for code in operation.told["responses"] if code.startswith("2"))
    good = operation.told["responses"][status]
    content = good["content"]
    drawn = (
        schemas.fields(content["application/json"]["schema"], asked=False)
        if "application/json" in content
        else f"<p>A file: {', '.join(f'<code>{text(kind)}</code>' for kind in content)}.</p>"
    )
    return f"<h3>Answer <small>{status} {text(good['description'])}</small></h3>{drawn}"


def _refusals(operation: _Operation) -> str:
    lines = "".join(
        f"<li><b>{status}</b> " + " ".join(f'<a class="chip" href="#error-{code}">{code}</a>' for code in codes)
        for status, codes in _codes(operation)
    )
    return f'<h3>Errors</h3><ul class="refusals">{lines}</ul>'


def _codes(operation: _Operation) -> Iterator[tuple[str, list[str]]]:
    for status, answer in operation.told["responses"].items():
        if not status.startswith("2"):
            schema = answer["content"]["application/json"]["schema"]
            yield status, schema["allOf"][1]["properties"]["error"]["properties"]["code"]["enum"]


def _curl(schemas: Schemas, operation: _Operation) -> str:
    told = operation.told
    path = re.sub(r"\{(\w+)\}", lambda found: "$" + found[1].upper(), operation.path)
    needed = [one["name"] for one in told["parameters"] if one["in"] == "query" and one["required"]]
    query = "?" + "&".join(f"{name}=…" for name in needed) if needed else ""
    lines = [f'curl {"" if operation.method == "GET" else f"-X {operation.method} "}"$GPUAAS_URL{path}{query}"']
    if told.get("security") != []:
        lines.append('-H "Authorization: Bearer $GPUAAS_TOKEN"')
    if operation.method != "GET":
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if "requestBody" in told:
        schema = told["requestBody"]["content"]["application/json"]["schema"]
        example = " ".join(schemas.example_json(schema).split()).replace("'", "'\\''")
        lines += ["-H 'Content-Type: application/json'", f"-d '{example}'"]
    return f"<h3>curl</h3><pre><code>{text(_joined(lines))}</code></pre>"


def _joined(lines: list[str]) -> str:
    return " \\\n  ".join(lines)


def _errors(by_tag: dict[str, list[_Operation]]) -> str:
    """Every code any operation answers with, once."""
    used = {code for operations in by_tag.values() for one in operations for _, codes in _codes(one) for code in codes}
    rows = "".join(
        f'<tr id="error-{code}"><td><code>{code}</code><td>{kind.status}<td>{_prose(sentence)}</tr>'
        for code, (kind, sentence) in CATALOGUE.items()
        if code in used
    )
    return (
        '<section class="errors"><h2 id="errors">Errors</h2><p>All errors have one shape; <code>code</code> is stable, '
        "<code>message</code> is for people, <code>details</code> name the fields that are wrong.</p>"
        '<pre><code>{"error": {"code": "…", "message": "…", "correlation_id": "…", '
        '"details": [{"field": "…", "reason": "…"}]}}</code></pre>'
        '<div class="scroll"><table class="fields"><thead><tr><th>Code<th>Status<th>Meaning</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )
