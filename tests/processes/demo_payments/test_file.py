"""The provider's file: written anew without losing anything that matters, refused when it is damaged."""

import os
import subprocess
from pathlib import Path

import pytest

from gpuaas.processes.demo_payments import checkout
from gpuaas.processes.demo_payments.book import Answered, Book, Change, Due
from gpuaas.processes.demo_payments.journal import Journal, JournalRefused
from gpuaas.processes.demo_payments.params import CheckoutCreate, CustomerWrite, read_params
from tests.support.payment_provider import wanted

DAY = 24 * 3600


def as_known(book: Book) -> dict[str, object]:
    """All that can be asked of it."""
    kinds = ("customer", "checkout.session", "payment_intent", "charge", "event")
    return {
        "objects": {kind: list(book.newest_first(kind)) for kind in kinds},
        "untold": [one["id"] for one in book.untold()],
        "open": [one["id"] for one in book.open_sessions()],
        "answers": [book.answered(key) for key in ("new", "old")],
        "due": book.due(),
    }


def fill(book: Book) -> None:
    """Something of everything: paid, open, expired; told and untold; answered lately and long ago."""
    book.write(Change(answer=Answered("old", "x", 200, {}, book.now() - DAY)))
    book.write(checkout.customer_create(book, CustomerWrite(email="a@example.com"))[1])
    asked = read_params(CheckoutCreate, wanted())
    made = [checkout.session_create(book, asked, "http://127.0.0.1:1") for _ in range(4)]
    for _, change in made:
        book.write(change)
    ids = [session["id"] for session, _ in made]
    book.write(checkout.session_pay(book, ids[0])[1])
    book.write(Change(told=[one["id"] for one in list(book.untold())]))
    book.write(checkout.session_expire(book, ids[1])[1])
    book.write(checkout.session_pay_by_bank(book, ids[2], good=True, seconds=0)[1])
    book.write(Change(answer=Answered("new", "y", 200, {"id": "z"}, book.now()), later_seconds=5))


def test_written_anew_it_is_shorter_and_says_the_same(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    book = Book(journal)
    fill(book)
    before, size = as_known(book), journal.path.stat().st_size
    journal.close()

    journal = Journal(tmp_path)
    again = Book(journal, compact_bytes=0)
    assert as_known(again) == before
    assert journal.path.stat().st_size < size
    again.write(Change(done=[one.id for one in again.due()]))
    after = as_known(again)
    journal.close()

    journal = Journal(tmp_path)
    assert as_known(Book(journal)) == after
    assert after["due"] == []
    journal.close()


def test_what_the_disk_did_not_take_did_not_happen(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    book = Book(journal)
    fill(book)
    before, content = as_known(book), journal.path.read_bytes()
    os.close(journal._file)
    journal._file = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OSError, match=r"No space|Invalid argument"):
        book.write(Change(due=[Due("cs_x", 0)]))
    assert as_known(book) == before
    assert journal.path.read_bytes() == content
    journal.close()


def test_a_damaged_file_is_refused_in_one_line_and_left_as_it_is(own) -> None:
    provider = own.start()
    provider.library().v1.customers.create({"email": "a@example.com"})
    provider.kill()
    file = provider.folder / "provider.jsonl"
    damaged = b"not json\n" + file.read_bytes()
    file.write_bytes(damaged)
    ended = subprocess.run(
        provider.argv, env=os.environ | provider.environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert f"{file} is damaged" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert file.read_bytes() == damaged


def test_a_second_opener_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(JournalRefused, match="in use"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()
