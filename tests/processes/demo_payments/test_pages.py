"""The pages people see: paying, declining, cancelling by their forms; safe against other sites and strange names."""

import re

import httpx
import pytest

from tests.support.payment_provider import BACK, DemoProvider, wanted

NASTY = """</td><script>alert(1)</script>"><img src=x onerror='x'>&amp;"""


def token_of(page: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    return found[1] if found else ""


class Browser:
    """Keeps cookies and follows no redirect."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client()

    def open(self) -> httpx.Response:
        return self.http.get(self.url)

    def press(self, do: str, headers: dict[str, str] | None = None, **changed: str) -> httpx.Response:
        form = {"form_token": token_of(self.open().text), "do": do} | changed
        return self.http.post(self.url, data=form, headers=headers)


@pytest.fixture
def session(library):
    return library.v1.checkout.sessions.create(wanted())


@pytest.fixture
def browser(session):
    browsing = Browser(session.url)
    yield browsing
    browsing.http.close()


def test_the_page_says_what_is_paid_and_that_no_money_moves(browser):
    page = browser.open()
    assert page.status_code == 200
    assert "Demo: no money moves." in page.text
    assert "Pay 50.00 USD" in page.text
    assert "Top-up" in page.text


def test_paying_leads_back_with_the_session_named(browser, session, library):
    answer = browser.press("pay")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{BACK}?paid={session.id}")
    assert library.v1.checkout.sessions.retrieve(session.id).payment_status == "paid"
    after = browser.open()
    assert "This is paid" in after.text
    assert f"{BACK}?paid={session.id}" in after.text


def test_a_second_press_pays_nothing_more(browser, session, library):
    page = browser.open().text
    token = {"form_token": token_of(page), "do": "pay"}
    answers = [browser.http.post(browser.url, data=token) for _ in range(3)]
    assert [one.status_code for one in answers] == [303, 303, 303]
    intent = library.v1.checkout.sessions.retrieve(session.id).payment_intent
    assert len(library.v1.charges.list({"payment_intent": intent}).data) == 1


def test_a_declined_card_is_told_on_the_page_and_another_may_pay(browser, session, library):
    answer = browser.press("decline")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/pay/{session.id}")
    assert "The card was declined" in browser.open().text
    browser.press("pay")
    assert library.v1.checkout.sessions.retrieve(session.id).payment_status == "paid"


def test_cancelling_leads_back_and_leaves_the_session_open(browser, session, library):
    answer = browser.press("cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{BACK}?cancelled=1")
    assert library.v1.checkout.sessions.retrieve(session.id).status == "open"


def test_a_bank_transfer_is_on_its_way(browser, session, library):
    assert browser.press("bank").status_code == 303
    found = library.v1.checkout.sessions.retrieve(session.id)
    assert (found.status, found.payment_status) == ("complete", "unpaid")
    assert "On its way" in browser.open().text


def test_what_has_expired_cannot_be_paid_from_a_page_left_open(browser, session, library):
    token = token_of(browser.open().text)
    library.v1.checkout.sessions.expire(session.id)
    browser.http.post(browser.url, data={"form_token": token, "do": "pay"})
    assert library.v1.checkout.sessions.retrieve(session.id).payment_status == "unpaid"
    assert "has expired" in browser.open().text


def test_reading_a_page_pays_nothing(browser, session, library):
    for query in ("?do=pay", "?paid=1", ""):
        httpx.get(browser.url + query)
        httpx.head(browser.url + query)
    assert library.v1.checkout.sessions.retrieve(session.id).status == "open"


@pytest.mark.parametrize(
    ("headers", "changed"),
    [
        ({"origin": "https://evil.example"}, {}),
        ({"sec-fetch-site": "cross-site"}, {}),
        ({"origin": "null"}, {}),
        ({"cookie": ""}, {}),
        ({}, {"form_token": ""}),
        ({}, {"form_token": "x" * 43}),
        ({}, {"form_token[a]": "x"}),
    ],
)
def test_a_form_from_elsewhere_pays_nothing(browser, session, library, headers, changed):
    answer = browser.press("pay", headers, **changed)
    assert answer.status_code in (400, 403)
    assert library.v1.checkout.sessions.retrieve(session.id).status == "open"


def test_a_form_of_another_browser_pays_nothing(browser, session, library):
    token = token_of(httpx.get(browser.url).text)
    assert browser.press("pay", form_token=token).status_code == 403
    assert library.v1.checkout.sessions.retrieve(session.id).status == "open"


def test_pages_run_no_script_and_lead_only_where_they_say(browser):
    policy = browser.open().headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "form-action 'self' http://127.0.0.1:9;" in policy
    assert "frame-ancestors 'none'" in policy
    assert browser.open().headers["referrer-policy"] == "same-origin", "else a browser sends the form as from nowhere"
    cookie = browser.open().headers.get("set-cookie") or httpx.get(browser.url).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


def test_names_are_text_and_nothing_else(provider: DemoProvider, library):
    customer = library.v1.customers.create({"email": NASTY, "name": NASTY})
    price = {"currency": "usd", "unit_amount": 5000, "product_data": {"name": NASTY, "description": NASTY}}
    made = library.v1.checkout.sessions.create(
        wanted(
            customer=customer.id,
            line_items=[{"quantity": 2, "price_data": price}],
            success_url=f'{BACK}?"><script>x</script>;script-src *',
        )
    )
    portal = library.v1.billing_portal.sessions.create({"customer": customer.id, "return_url": f'{BACK}?"><script>'})
    pages = [httpx.get(made.url), httpx.get(portal.url)]
    provider.order("pay", session=made.id)
    pages += [httpx.get(made.url), httpx.get(portal.url)]
    for page in pages:
        assert page.status_code == 200
        assert "<script" not in page.text
        assert "<img" not in page.text
        assert "script-src" not in page.headers["content-security-policy"]
    assert "100.00 USD" in pages[0].text


def test_the_portal_lists_what_a_customer_paid_and_nobody_elses(provider: DemoProvider, library):
    mine, other = (library.v1.customers.create({"name": name}).id for name in ("Mine", "Other"))
    for customer, cents in ((mine, 1111), (mine, 2222), (other, 3333)):
        price = {"currency": "usd", "unit_amount": cents, "product_data": {"name": "Top-up"}}
        made = library.v1.checkout.sessions.create(
            wanted(customer=customer, line_items=[{"quantity": 1, "price_data": price}])
        )
        if cents != 1111:
            provider.order("pay", session=made.id)
    portal = library.v1.billing_portal.sessions.create({"customer": mine, "return_url": BACK})
    page = httpx.get(portal.url)
    assert "Demo: no money moves." in page.text
    assert re.findall(r"(\d\d\.\d\d) USD</td><td><span[^>]*>(\w+)", page.text) == [("22.22", "Paid"), ("11.11", "Open")]
    assert f'href="{BACK}"' in page.text
    provider.order("later", seconds=3700)
    assert "too old" in httpx.get(portal.url).text
    assert "22.22" not in httpx.get(portal.url).text


@pytest.mark.parametrize(
    "path", ["/", "/pay/", "/pay/cs_test_nobody", "/portal/bps_nobody", "/pay/../v1/customers", "/x/y/z"]
)
def test_what_is_not_there_is_a_page_that_says_so(provider: DemoProvider, path):
    answer = httpx.get(provider.url + path)
    assert answer.status_code in (401, 404)
    if answer.status_code == 404:
        assert "Not here" in answer.text


def test_other_currencies_have_their_own_decimals(library):
    for currency, cents, said in (("jpy", 5000, "5,000 JPY"), ("kwd", 5000, "5.000 KWD"), ("eur", 5005, "50.05 EUR")):
        price = {"currency": currency, "unit_amount": cents, "product_data": {"name": "Top-up"}}
        made = library.v1.checkout.sessions.create(wanted(line_items=[{"quantity": 1, "price_data": price}]))
        assert said in httpx.get(made.url).text
