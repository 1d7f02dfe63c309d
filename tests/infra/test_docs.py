"""The pages the API serves itself: whole, without anything from outside, running nothing they did not bring."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from gpuaas.domains import load_routes
from gpuaas.infra.http.docs import docs_page
from gpuaas.infra.http.html import HtmlPage
from gpuaas.infra.http.landing import landing_page
from gpuaas.infra.http.openapi import document, error_codes
from gpuaas.infra.http.operation import REGISTRY

load_routes()
DOCS, LANDING = docs_page(document(REGISTRY)), landing_page("https://gpu.example.com/")
PAGES = [pytest.param(DOCS, id="docs"), pytest.param(LANDING, id="landing")]


class Seen(HTMLParser):
    def __init__(self, page: HtmlPage) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.inline: dict[str, str] = {}
        self._inside = ""
        self.feed(page.body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "action"}:
                self.addresses.append(value or "")
            if name.startswith("on") or name == "style":
                self.handlers.append(name)
        self._inside = tag if tag in {"style", "script"} else ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.inline[self._inside] = data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_refers_to_nothing_outside(page: HtmlPage):
    seen = Seen(page)
    assert [one for one in seen.addresses if not one.startswith(("/", "#", "data:")) or one.startswith("//")] == []
    assert "@import" not in seen.inline["style"]
    assert "url(" not in seen.inline["style"]


@pytest.mark.parametrize("page", PAGES)
def test_only_the_pages_own_style_and_script_are_allowed_by_hash(page: HtmlPage):
    seen, policy = Seen(page), dict(page.headers)[b"content-security-policy"].decode()
    for kind, content in seen.inline.items():
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert seen.handlers == []


def test_every_operation_and_every_error_has_its_place_in_the_docs():
    seen = Seen(DOCS)
    assert len(seen.ids) == len(set(seen.ids))
    for operation in REGISTRY.json():
        assert operation.id in seen.ids
        for code in error_codes(operation):
            assert f"error-{code}" in seen.ids
    fragments = [one[1:] for one in seen.addresses if one.startswith("#")]
    assert set(fragments) <= set(seen.ids)


def test_an_operation_shows_its_permission_lane_and_a_command_to_try():
    text = re.sub(r"<[^>]+>", "", DOCS.body.decode()).replace("&quot;", '"').replace("&#x27;", "'")
    assert 'curl -X POST "$GPUAAS_URL/api/v1/orgs/$ORG_ID/projects"' in text
    assert '-H "Idempotency-Key: $(uuidgen)"' in text
    assert '-d \'{ "name": "ml-team" }\'' in text
    assert "projects.create" in text


def test_text_from_the_contract_is_text():
    contract = document(REGISTRY)
    path = next(iter(contract["paths"].values()))
    next(iter(path.values()))["summary"] = "<script>alert(1)</script> & `code`"
    body = docs_page(contract).body.decode()
    assert "<script>alert(1)" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; <code>code</code>" in body


def test_the_landing_page_says_how_to_log_in_here():
    assert "gpuaas login --url https://gpu.example.com\n" in LANDING.body.decode()


def test_a_field_is_explained_by_the_sentence_below_it_and_an_instant_is_said_to_be_one():
    schemas = document(REGISTRY)["components"]["schemas"]
    key = schemas["KeyView"]["properties"]
    assert key["hint"]["description"] == "How the key begins."
    assert key["created_at"]["format"] == "date-time"
    assert {"type": "string", "format": "date-time"} in key["last_used_at"]["anyOf"]
    assert "description" in schemas["MeView"]["properties"]["projects"]
