"""A certified issuer that is not ours (npm `oidc-provider`), as a process; and a browser that logs in there."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx

ROOT = Path(__file__).parents[2]
INTEROP = ROOT / "tests" / "interop"
CHOSEN_NODE = ROOT / ".venv" / ".node"
AUDIENCE = "https://gpuaas.example/api"
CLIENT_SECRET = "a secret: with/odd+characters%"


def node() -> str:
    """The Node.js that `make test` chose; chosen and filled now when the tests were started without it."""
    needed = [INTEROP / "node_modules" / name for name in ("oidc-provider", "openid-client")]
    if not CHOSEN_NODE.exists() or not all(package.is_dir() for package in needed):
        subprocess.run([ROOT / "scripts" / "node"], check=True, timeout=300)
    return CHOSEN_NODE.read_text().strip()


class ExternalIssuer:
    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [node(), INTEROP / "issuer.mjs", str(self.port)], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip() == "ready", f"the issuer said {line!r}: {self._log.read_text()}"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    async def rotate_keys(self) -> None:
        async with httpx.AsyncClient() as client:
            (await client.post(f"{self.url}/test/rotate")).raise_for_status()


class Form(HTMLParser):
    """The form on a page: where it goes and its hidden fields."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = said.get("action", "")
        elif tag == "input" and said.get("name"):
            self.fields[said["name"]] = said.get("value", "")


async def log_in(authorization_url: str, login: str) -> dict[str, str]:
    """Goes through the issuer's pages as a person does; what the browser brings back to the redirect address."""
    async with httpx.AsyncClient(timeout=20) as browser:
        answer = await browser.get(authorization_url)
        for _ in range(12):
            if answer.is_redirect:
                target = urljoin(str(answer.url), answer.headers["location"])
                if urlsplit(target).path == "/callback":
                    return dict(parse_qsl(urlsplit(target).query))
                answer = await browser.get(target)
                continue
            assert answer.status_code == 200, answer.text
            form = Form(answer.text)
            fields = form.fields | ({"login": login, "password": "any"} if "login" in form.fields else {})
            answer = await browser.post(urljoin(str(answer.url), form.action), data=fields)
    raise AssertionError(f"the login did not end: {answer.status_code} {answer.url}")
