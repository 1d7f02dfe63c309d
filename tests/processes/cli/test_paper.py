"""Statements, invoices and proofs from the command line."""

from pathlib import Path

from tests.support.terminal import Terminal


async def test_a_statement_is_shown_and_saved_as_pdf_and_csv(ada: Terminal, tmp_path: Path):
    shown = await ada.good("billing", "statement")
    assert "balance before" in shown
    for form, begins in (("pdf", b"%PDF-"), ("csv", b'"line"')):
        path = tmp_path / f"paper.{form}"
        await ada.good("billing", "statement", "--from", "7d", f"--{form}", "--to-file", str(path))
        assert path.read_bytes().startswith(begins)
    assert (await ada.run("billing", "statement", "--pdf", "--csv")).code == 2
    assert (await ada.run("billing", "statement", "-o", "json")).json["closing_micros"] == 0


async def test_where_there_is_no_invoice_yet_it_is_said(ada: Terminal):
    listed = await ada.run("billing", "invoices", "list")
    assert listed.code == 0
    assert "after a month has ended" in listed.err
    refused = await ada.run("billing", "invoices", "download", "2026-000001")
    assert refused.code == 2
    assert "--pdf" in refused.err
    missing = await ada.run("billing", "invoices", "get", "2026-000001")
    assert "billing invoices list" in missing.err
    assert missing.code != 0


async def test_an_organisation_proves_its_own_books(ada: Terminal):
    said = await ada.good("billing", "proof")
    for equation in ("payments that succeeded", "metered seconds = seconds held"):
        assert equation in said


async def test_a_project_has_a_cost_centre_until_it_has_none(ada: Terminal):
    await ada.good("projects", "create", "costly", "--cost-centre", "R&D-4711")
    assert "R&D-4711" in await ada.good("projects", "show", "costly")
    await ada.good("projects", "update", "costly", "--cost-centre", "")
    assert "R&D-4711" not in await ada.good("projects", "show", "costly")
