"""The pages people see at the built-in issuer. Each stands alone: its style is inside, nothing is loaded from anywhere,
no script runs; it reads well without colour, in the dark, on a telephone and to a screen reader."""

import base64
import hashlib
from html import escape

from gpuaas.domains.issuer.accounts.password_rules import MAX_LENGTH, MIN_LENGTH

STYLE = """
:root { color-scheme: light dark; --ink: #17212b; --soft: #5b6875; --paper: #f3f5f7; --card: #ffffff; --line: #c6ced6;
  --edge: #75828f; --main: #0b6b3a; --on-main: #ffffff; --bad: #a3131f; --bad-paper: #fdecee; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7edf2; --soft: #a2b0bc; --paper: #0f1419; --card: #181f26;
  --line: #3a4650; --edge: #7d8b98; --main: #46c281; --on-main: #06150c; --bad: #ff9aa2; --bad-paper: #3a161a; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 25rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: 2rem; }
h1 { margin: 0 0 .25rem; font-size: 1.375rem; line-height: 1.25; }
p { margin: .5rem 0 0; } .soft { color: var(--soft); }
.brand { font-weight: 700; letter-spacing: .02em; margin: 0 0 1.5rem; }
form { margin-top: 1.5rem; display: grid; gap: 1rem; }
label { display: grid; gap: .375rem; font-weight: 600; }
input { font: inherit; font-weight: 400; width: 100%; padding: .625rem .75rem; border: 1px solid var(--edge);
  border-radius: .5rem; background: var(--paper); color: var(--ink); }
input.code { font-family: ui-monospace, monospace; font-size: 1.375rem; letter-spacing: .15em; text-align: center;
  text-transform: uppercase; }
button { font: inherit; font-weight: 600; padding: .6875rem 1rem; border: 1px solid var(--main); border-radius: .5rem;
  background: var(--main); color: var(--on-main); cursor: pointer; }
button.quiet { background: transparent; color: var(--ink); border-color: var(--line); }
:focus-visible { outline: 3px solid var(--main); outline-offset: 2px; }
.alert { margin-top: 1rem; padding: .75rem 1rem; border-radius: .5rem; border-left: 4px solid var(--bad);
  background: var(--bad-paper); color: var(--bad); }
.big { font: 700 1.5rem ui-monospace, monospace; letter-spacing: .15em; text-align: center; padding: .75rem;
  border: 1px dashed var(--line); border-radius: .5rem; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .25rem 1rem; margin: 1rem 0 0; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
button:hover { filter: brightness(1.08); }
"""
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def policy(form_targets: str) -> str:
    """The Content-Security-Policy of a page. A browser also checks where a form's answer redirects to."""
    return (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; form-action 'self'{form_targets}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )


def login(*, action: str, token: str, client: str, email: str, alert: str = "") -> str:
    focus_email, focus_password = (" autofocus", "") if not email else ("", " autofocus")
    return page(
        "Log in",
        f"""
<h1>Log in</h1><p class="soft">to continue to {escape(client)}</p>{_alert(alert)}
<form method="post" action="{escape(action)}">{_token(token)}
<label>Email<input type="email" name="email" value="{escape(email)}" autocomplete="username" required maxlength="254"
 spellcheck="false" autocapitalize="none"{focus_email}></label>
<label>Password<input type="password" name="password" autocomplete="current-password" required
 maxlength="{MAX_LENGTH}"{focus_password}></label>
<button type="submit">Log in</button></form>""",
    )


def choose_password(*, action: str, token: str, ticket: str, email: str, alert: str = "") -> str:
    return page(
        "Choose a password",
        f"""
<h1>Choose a password</h1><p class="soft">The one you were given works once. Choose your own, of at least
{MIN_LENGTH} characters; several words in a row are easy to keep in mind.</p>{_alert(alert)}
<form method="post" action="{escape(action)}">{_token(token)}
<input type="hidden" name="ticket" value="{escape(ticket)}">
<input type="hidden" name="email" value="{escape(email)}" autocomplete="username">
<label>New password<input type="password" name="new_password" autocomplete="new-password" required autofocus
 minlength="{MIN_LENGTH}" maxlength="{MAX_LENGTH}"></label>
<label>The same again<input type="password" name="again" autocomplete="new-password" required
 minlength="{MIN_LENGTH}" maxlength="{MAX_LENGTH}"></label>
<button type="submit">Save and continue</button></form>""",
    )


def device_entry(*, action: str, token: str, user_code: str = "", email: str = "", alert: str = "") -> str:
    return page(
        "Connect a device",
        f"""
<h1>Connect a device</h1><p class="soft">Enter the code your device or terminal shows.</p>{_alert(alert)}
<form method="post" action="{escape(action)}">{_token(token)}
<label>Code<input class="code" name="user_code" value="{escape(user_code)}" required maxlength="40" autofocus
 autocomplete="off" spellcheck="false" autocapitalize="characters" placeholder="XXXX-XXXX"></label>
<button type="submit" name="answer" value="look">Continue</button></form>{_signed_in(email)}""",
    )


def device_confirm(*, action: str, token: str, user_code: str, client: str, requested_from: str, email: str) -> str:
    return page(
        "Allow this device?",
        f"""
<h1>Allow this device?</h1><p>Compare: the device must show exactly this code.</p>
<p class="big">{escape(user_code)}</p>
<dl><dt>Program</dt><dd>{escape(client)}</dd><dt>Asked from</dt><dd>{escape(requested_from)}</dd>
<dt>It will act as</dt><dd>{escape(email)}</dd></dl>
<p class="soft">If somebody sent you this code, or you did not start this login yourself, deny it.</p>
<form method="post" action="{escape(action)}">{_token(token)}
<input type="hidden" name="user_code" value="{escape(user_code)}">
<button type="submit" name="answer" value="allow">Allow</button>
<button type="submit" name="answer" value="deny" class="quiet">Deny</button></form>""",
    )


def logout_confirm(*, action: str, token: str, email: str) -> str:
    return page(
        "Log out?",
        f"""
<h1>Log out?</h1><p class="soft">You are logged in as {escape(email)}.</p>
<form method="post" action="{escape(action)}">{_token(token)}
<button type="submit">Log out</button></form>""",
    )


def message(title: str, text: str) -> str:
    """Something to read and nothing to do."""
    return page(title, f'<h1>{escape(title)}</h1><p role="status">{escape(text)}</p>')


def page(title: str, body: str) -> str:
    """A whole page in the look of all of them; `body` is HTML already."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">'
        f"<title>{escape(title)} · GPUaaS</title><style>{STYLE}</style></head>"
        f'<body><main><p class="brand">GPUaaS</p>{body}</main></body></html>\n'
    )


def _alert(text: str) -> str:
    return f'<p class="alert" role="alert">{escape(text)}</p>' if text else ""


def _token(token: str) -> str:
    return f'<input type="hidden" name="form_token" value="{escape(token)}">'


def _signed_in(email: str) -> str:
    return f'<p class="soft">You are logged in as {escape(email)}.</p>' if email else ""
