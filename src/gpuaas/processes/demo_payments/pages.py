"""What people see: the page where a payment is made or not, and the list of a customer's payments.

Always holds: every page says that no money moves; no script runs; every text from outside is escaped."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec

from gpuaas.infra.http.html import HtmlPage, html_page, text
from gpuaas.processes.demo_payments.book import Object
from gpuaas.processes.demo_payments.checkout import success_url
from gpuaas.processes.demo_payments.money import written

STYLE = "payment.css"
BANK_SECONDS = 10
SELF = "'self'"
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")
_STANDING = {
    "open": ("waiting", "Open"),
    "expired": ("off", "Expired"),
    "paid": ("good", "Paid"),
    "unpaid": ("waiting", "On its way"),
    "failed": ("bad", "Failed"),
    "refunded": ("off", "Refunded"),
    "partly": ("off", "Partly refunded"),
    "disputed": ("bad", "Disputed"),
}


class Payment(msgspec.Struct, frozen=True):
    """A session with what became of its money."""

    session: Object
    intent: Object | None
    charge: Object | None

    @property
    def standing(self) -> str:
        charge = self.charge
        if self.session["status"] != "complete":
            return str(self.session["status"])
        if charge is not None and charge["status"] == "failed":
            return "failed"
        if charge is not None and charge["disputed"]:
            return "disputed"
        if charge is not None and charge["amount_refunded"]:
            return "refunded" if charge["refunded"] else "partly"
        return str(self.session["payment_status"])


def payment_page(payment: Payment, email: str, token: str) -> HtmlPage:
    session = payment.session
    amount = written(session["amount_total"], session["currency"])
    declined = payment.intent is not None and payment.intent["last_payment_error"] is not None
    whom = f"<dt>Customer</dt><dd>{text(email)}</dd>" if email else ""
    until = datetime.fromtimestamp(session["expires_at"], UTC).strftime("%-d %B %Y, %H:%M UTC")
    body = (
        f'<p class="soft">Top up your balance</p><h1 class="amount">{text(amount)}</h1>'
        + ('<p class="alert" role="alert">The card was declined. Nothing was paid.</p>' if declined else "")
        + f'<table class="lines"><tbody>{"".join(_line(one) for one in session["_lines"])}</tbody></table>'
        + f"<dl>{whom}<dt>Open until</dt><dd>{until}</dd></dl>"
        + f'<form method="post"><input type="hidden" name="form_token" value="{text(token)}">'
        + f'<button name="do" value="pay">Pay {text(amount)}</button>'
        + '<button name="do" value="decline" class="quiet">Have the card declined</button>'
        + '<button name="do" value="cancel" class="plain">Cancel and go back</button>'
        + "<details><summary>Pay by bank transfer</summary>"
        + f'<p class="soft">The bank decides after {BANK_SECONDS} seconds.</p><div class="pair">'
        + '<button name="do" value="bank" class="quiet">It arrives</button>'
        + '<button name="do" value="bank_fails" class="quiet">It fails</button></div></details></form>'
    )
    forms = " ".join([SELF, *sorted({_origin(success_url(session)), _origin(session["cancel_url"] or "")} - {""})])
    return _page(f"Pay {amount}", body, forms=forms)


def settled_page(payment: Payment) -> HtmlPage:
    """For whoever comes back to a session that is not open any more."""
    session, standing = payment.session, payment.standing
    amount = written(session["amount_total"], session["currency"])
    said = {
        "expired": ("This payment has expired", "Nothing was paid. Ask for a new one where you came from."),
        "unpaid": ("On its way", f"The bank has not decided yet about {amount}."),
        "failed": ("The transfer failed", "Nothing was paid."),
    }.get(standing, ("This is paid", f"{amount}. There is nothing more to do here."))
    back = session["cancel_url"] if standing == "expired" else success_url(session)
    return message_page(*said, back=back or "")


def portal_page(customer: Object, payments: Sequence[Payment], return_url: str, *, more: bool) -> HtmlPage:
    who = customer["name"] or customer["email"] or customer["id"]
    rows = "".join(_row(one) for one in payments)
    listed = (
        '<table class="rows"><thead><tr><th>When (UTC)</th><th>What</th><th class="number">Amount</th><th>State</th>'
        f"</tr></thead><tbody>{rows}</tbody></table>"
        if rows
        else '<p class="soft">There are none yet.</p>'
    )
    body = (
        f'<h1>Payments</h1><p class="soft">{text(who)}</p>{listed}'
        + (f'<p class="soft">The newest {len(payments)} are shown.</p>' if more else "")
        + _back(return_url)
    )
    return _page("Payments", body, wide=True)


def message_page(title: str, said: str, *, back: str = "") -> HtmlPage:
    return _page(title, f'<h1>{text(title)}</h1><p role="status">{text(said)}</p>{_back(back)}')


def _page(title: str, body: str, *, forms: str = "'none'", wide: bool = False) -> HtmlPage:
    content = (
        f'<main{" class=wide" if wide else ""}><p class="brand">GPUaaS <span>demo payments</span></p>'
        '<p class="demo" role="note"><b>Demo: no money moves.</b> '
        "This page stands in for a payment provider; it asks for no card.</p>"
        f"{body}</main>"
    )
    return html_page(f"{title} · demo payments", content, style=STYLE, forms=forms)


def _line(item: Object) -> str:
    times = f"{item['quantity']} × " if item["quantity"] != 1 else ""
    details = f'<br><span class="soft">{text(item["details"])}</span>' if item["details"] else ""
    amount = text(written(item["amount_total"], item["currency"]))
    return f'<tr><td>{times}{text(item["description"])}{details}</td><td class="number">{amount}</td></tr>'


def _row(payment: Payment) -> str:
    session = payment.session
    when = datetime.fromtimestamp(session["created"], UTC).strftime("%Y-%m-%d %H:%M")
    what = ", ".join(line["description"] for line in session["_lines"])
    style, word = _STANDING[payment.standing]
    return (
        f'<tr><td><time>{when}</time></td><td class="what">{text(what)}</td>'
        f'<td class="number">{text(written(session["amount_total"], session["currency"]))}</td>'
        f'<td><span class="tag {style}">{word}</span></td></tr>'
    )


def _back(url: str) -> str:
    return f'<p class="back"><a href="{text(url)}">Go back</a></p>' if url else ""


def _origin(url: str) -> str:
    """Where a form's redirect may lead, as a policy says it; nothing that could be read as more than that."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin if _ORIGIN.fullmatch(origin) else ""
