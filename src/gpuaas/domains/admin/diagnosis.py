"""From figures to words: what is wrong with an installation, and where to look."""

from gpuaas.contracts.http.admin import HealthCheck, HealthFigures

OUTBOX_SECONDS = 60.0
CONSUMER_SECONDS = 120.0
SEAL_SECONDS = 60.0
POLICY_SECONDS = 5.0
MAIL_SECONDS = 600.0
DATABASE_MS = 250.0


def diagnose(figures: HealthFigures, *, checkpoint_seconds: int) -> list[HealthCheck]:
    """Every check, with its reason when it fails."""
    behind = [lag.consumer for lag in figures.consumers if lag.behind_seconds > CONSUMER_SECONDS]
    uncovered = figures.audit_sealed_through - figures.audit_checkpoint_through
    age = figures.audit_checkpoint_age_seconds
    return [
        _check(
            "database",
            figures.database_ms > DATABASE_MS,
            f"an empty question took {figures.database_ms:.0f} ms: the database is overloaded or far away",
        ),
        _check(
            "migrations",
            figures.migration != figures.migration_head,
            f"at {figures.migration or 'none'}, this program is written for {figures.migration_head}: "
            "run gpuaas migrate",
        ),
        _check(
            "relay",
            figures.outbox_oldest_seconds > OUTBOX_SECONDS,
            f"{figures.outbox_unpublished} events wait, the oldest for {figures.outbox_oldest_seconds:.0f} s: "
            "look at the relay and at NATS",
        ),
        _check(
            "consumers",
            bool(behind),
            f"behind for more than {CONSUMER_SECONDS:.0f} s: {', '.join(behind)[:200]}: look at the worker",
        ),
        _check(
            "dead letters",
            figures.dead_letters_open > 0,
            f"{figures.dead_letters_open} wait for an operator: gpuaas ops dead-letters list",
        ),
        _mail(figures),
        _check(
            "audit sealer",
            figures.audit_oldest_unsealed_seconds > SEAL_SECONDS,
            f"{figures.audit_unsealed} audit rows wait, the oldest for "
            f"{figures.audit_oldest_unsealed_seconds:.0f} s: look at the worker",
        ),
        _check(
            "audit checkpoints",
            uncovered > 0 and (age is None or age > checkpoint_seconds + SEAL_SECONDS),
            f"{uncovered} sealed rows have no signed checkpoint yet: look at the worker",
        ),
        _check(
            "policy",
            figures.policy_age_seconds > POLICY_SECONDS,
            f"this replica's policies were last confirmed {figures.policy_age_seconds:.0f} s ago",
        ),
    ]


def _mail(figures: HealthFigures) -> HealthCheck:
    if figures.emails_failed:
        said = f"{figures.emails_failed} failed in the last day: gpuaas ops emails list --state failed"
    elif figures.emails_oldest_queued_seconds > MAIL_SECONDS:
        said = f"{figures.emails_queued} wait, the oldest for {figures.emails_oldest_queued_seconds:.0f} s: "
        said += "look at the worker and at the mail server"
    elif figures.emails_not_configured:
        said = f"{figures.emails_not_configured} wait because no mail server is set: see GPUAAS_SMTP_URL"
        return HealthCheck(name="email", ok=True, reason=said)  # as it was chosen, and not to be forgotten
    else:
        said = ""
    return HealthCheck(name="email", ok=not said, reason=said)


def _check(name: str, failed: bool, reason: str) -> HealthCheck:
    return HealthCheck(name=name, ok=not failed, reason=reason if failed else "")
