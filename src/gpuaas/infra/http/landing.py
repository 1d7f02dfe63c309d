"""/: what this is and where to go, until the console stands here."""

from gpuaas import __version__
from gpuaas.infra.http.html import HtmlPage, html_page, text


def landing_page(public_url: str) -> HtmlPage:
    url = text(public_url.rstrip("/"))
    content = (
        "<main>"
        '<h1>GPUaaS</h1><p class="lead">A control plane that turns a rack of GPU servers into a cloud.</p>'
        '<p id="health" class="health" role="status"><span class="dot"></span><span id="health-text">'
        '<a href="/readyz">See whether it is ready</a></span></p>'
        "<section><h2>Log in from a terminal</h2>"
        f"<pre><code>gpuaas login --url {url}\n"
        "gpuaas whoami\n"
        "gpuaas projects create my-first-project</code></pre>"
        "<p>On a machine without a browser: <code>gpuaas login --device</code>. Programs use a service account’s "
        "key in <code>GPUAAS_TOKEN</code>.</p></section>"
        '<ul class="cards">'
        '<li><a href="/api/docs"><b>API documentation</b><span>Every operation and what it needs.</span></a>'
        '<li><a href="/api/openapi.json"><b>OpenAPI 3.1</b><span>The contract, for programs.</span></a>'
        '<li><a href="/readyz"><b>Readiness</b><span>What is up, and what is not.</span></a>'
        '<li><a href="/metrics"><b>Metrics</b><span>For Prometheus.</span></a>'
        "</ul>"
        f"<footer>Version {text(__version__)} · the API is at <code>{url}/api/v1</code></footer></main>"
    )
    return html_page("GPUaaS", content, style="landing.css", script="landing.js")
