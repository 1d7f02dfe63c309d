"""From figures to words: each trouble is told by its own check, and by no other."""

import msgspec
import pytest

from gpuaas.contracts.http.admin import ConsumerLag, HealthFigures
from gpuaas.domains.admin.diagnosis import diagnose
from gpuaas.domains.admin.process import usage

WELL = HealthFigures(
    database_ms=0.4,
    migration="0005",
    migration_head="0005",
    outbox_unpublished=3,
    outbox_oldest_seconds=1.0,
    consumers=[ConsumerLag(consumer="a.b", behind_seconds=30.0)],
    dead_letters_open=0,
    dead_letters_replaying=1,
    emails_queued=4,
    emails_oldest_queued_seconds=30.0,
    emails_not_configured=0,
    emails_failed=0,
    audit_unsealed=5,
    audit_oldest_unsealed_seconds=1.0,
    audit_sealed_through=10,
    audit_checkpoint_through=9,
    audit_checkpoint_age_seconds=30.0,
    policy_revision=1,
    policy_age_seconds=0.4,
)


def failing(**figures: object) -> dict[str, str]:
    checks = diagnose(msgspec.structs.replace(WELL, **figures), checkpoint_seconds=60)
    return {check.name: check.reason for check in checks if not check.ok}


def test_all_is_well():
    assert failing() == {}


@pytest.mark.parametrize(
    ("figures", "check", "word"),
    [
        ({"database_ms": 400.0}, "database", "400 ms"),
        ({"migration": "0004"}, "migrations", "gpuaas migrate"),
        ({"migration": ""}, "migrations", "none"),
        ({"outbox_oldest_seconds": 61.0}, "relay", "relay"),
        ({"consumers": [ConsumerLag(consumer="x.y", behind_seconds=121.0)]}, "consumers", "x.y"),
        ({"dead_letters_open": 2}, "dead letters", "2 wait"),
        ({"emails_failed": 2}, "email", "2 failed"),
        ({"emails_oldest_queued_seconds": 601.0}, "email", "4 wait"),
        ({"audit_oldest_unsealed_seconds": 61.0}, "audit sealer", "worker"),
        ({"audit_checkpoint_age_seconds": 121.0}, "audit checkpoints", "1 sealed"),
        ({"audit_checkpoint_age_seconds": None, "audit_checkpoint_through": 0}, "audit checkpoints", "10 sealed"),
        ({"policy_age_seconds": 6.0}, "policy", "6 s"),
    ],
)
def test_a_trouble_is_told_by_its_own_check(figures, check, word):
    found = failing(**figures)
    assert list(found) == [check]
    assert word in found[check]


def test_mail_without_a_server_is_told_and_is_no_trouble():
    checks = diagnose(msgspec.structs.replace(WELL, emails_not_configured=3), checkpoint_seconds=60)
    told = {check.name: check for check in checks}["email"]
    assert told.ok
    assert "GPUAAS_SMTP_URL" in told.reason


def test_an_old_checkpoint_that_covers_everything_is_fine():
    assert failing(audit_checkpoint_age_seconds=9_999.0, audit_checkpoint_through=10) == {}


def test_this_process_tells_what_it_uses():
    found = usage()
    assert found.resident_bytes > 10_000_000
    assert found.open_files > 0
    assert found.threads >= 1
    assert found.uptime_seconds >= 0
