"""The policy keys: every threshold of the product, with its type, bounds, default and the direction in which it gets
stricter. A key missing here cannot be read, set or explained; a test holds that each key here is read somewhere."""

from gpuaas.contracts.allocation_policy_keys import ALLOCATION_KEYS
from gpuaas.contracts.billing_policy_keys import BILLING_KEYS
from gpuaas.contracts.notification_policy_keys import NOTIFICATION_KEYS
from gpuaas.contracts.payment_policy_keys import PAYMENT_KEYS
from gpuaas.contracts.policy_key import (
    Level,
    PolicyKey,
    Stricter,
    Value,
    by_platform,
    number,
    of_platform,
    rate,
)

_ALL: tuple[PolicyKey, ...] = (
    *rate("default", 6_000, 600, "an actor"),
    *rate("financial", 120, 30, "an actor"),
    *rate("admin", 1_200, 200, "an actor"),
    *rate("terminal", 120, 30, "an actor"),
    *rate("auth", 120, 60, "an address or actor"),
    *rate("enrolment", 6_000, 1_000, "an address with good tokens"),
    of_platform(
        number(
            "rate_limit.bad_credentials_per_minute",
            60,
            (1, 100_000),
            "requests per minute",
            Stricter.LOWER,
            "How many unknown credentials a minute an address may try.",
        )
    ),
    number("identity.invitation_days", 7, (1, 90), "days", Stricter.LOWER, "How long an invitation can be accepted."),
    number(
        "identity.service_account_key_max_days",
        365,
        (1, 3_650),
        "days",
        Stricter.LOWER,
        "How long a service account's key may live at most.",
    ),
    number(
        "identity.service_account_keys_max",
        10,
        (1, 100),
        "keys",
        Stricter.LOWER,
        "How many live keys one service account may have.",
    ),
    of_platform(
        number(
            "identity.ssh_keys_max", 50, (1, 500), "keys", Stricter.LOWER, "How many SSH public keys one user may have."
        )
    ),
    of_platform(
        number(
            "identity.orgs_per_user_max",
            100,
            (1, 10_000),
            "organisations",
            Stricter.LOWER,
            "How many organisations one user may own beside the personal one and still create another.",
        )
    ),
    by_platform(
        number(
            "identity.projects_per_org_max",
            1_000,
            (1, 100_000),
            "projects",
            Stricter.LOWER,
            "How many projects one organisation may have.",
        )
    ),
    by_platform(
        number(
            "identity.service_accounts_per_org_max",
            500,
            (1, 100_000),
            "service accounts",
            Stricter.LOWER,
            "How many service accounts one organisation may have.",
        )
    ),
    of_platform(
        number(
            "issuer.access_token_seconds",
            900,
            (60, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long an access token of the built-in issuer lives.",
        )
    ),
    of_platform(
        number(
            "issuer.refresh_token_days",
            30,
            (1, 365),
            "days",
            Stricter.LOWER,
            "How long a session of the built-in issuer lives without being used.",
        )
    ),
    of_platform(
        number(
            "issuer.device_code_seconds",
            600,
            (60, 1_800),
            "seconds",
            Stricter.LOWER,
            "How long a device code can be entered.",
        )
    ),
    of_platform(
        number(
            "issuer.session_hours",
            12,
            (1, 720),
            "hours",
            Stricter.LOWER,
            "How long a browser stays logged in at the built-in issuer.",
        )
    ),
    of_platform(
        number(
            "issuer.login_free_attempts",
            5,
            (1, 100),
            "attempts",
            Stricter.LOWER,
            "How many wrong passwords in a row make an address wait before the next.",
        )
    ),
    of_platform(
        number(
            "issuer.lockout_max_seconds",
            900,
            (1, 86_400),
            "seconds",
            Stricter.HIGHER,
            "How long an address waits at most between wrong passwords; the wait doubles up to it.",
        )
    ),
    of_platform(
        number(
            "retention.idempotency_days",
            30,
            (1, 365),
            "days",
            Stricter.HIGHER,
            "How long a repeated request gets its first answer back.",
        )
    ),
    of_platform(
        number(
            "retention.outbox_days",
            30,
            (8, 3_650),
            "days",
            Stricter.HIGHER,
            "How long events are kept after they were published.",
        )
    ),
    of_platform(
        number(
            "audit.checkpoint_seconds",
            60,
            (1, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long sealed audit rows may wait for a signed checkpoint.",
        )
    ),
    of_platform(
        number(
            "audit.checkpoint_rows",
            10_000,
            (1, 1_000_000),
            "rows",
            Stricter.LOWER,
            "After how many sealed audit rows a checkpoint is signed at once.",
        )
    ),
    of_platform(
        number(
            "nodes.lease_seconds",
            15,
            (3, 600),
            "seconds",
            Stricter.LOWER,
            "How long a node may be silent before nobody claims to know how it is.",
        )
    ),
    of_platform(
        number(
            "nodes.lost_seconds",
            300,
            (5, 86_400),
            "seconds",
            Stricter.LOWER,
            "How long a node may be silent before it counts as lost.",
        )
    ),
    of_platform(
        number(
            "nodes.strikes_max",
            3,
            (1, 100),
            "strikes",
            Stricter.LOWER,
            "With how many quarantines a GPU is no longer checked for its return without an operator.",
        )
    ),
    of_platform(
        number(
            "nodes.failed_provisions_max",
            2,
            (1, 100),
            "tasks",
            Stricter.LOWER,
            "How many provisions in a row may fail on a node before it is quarantined.",
        )
    ),
    of_platform(
        number(
            "retention.node_health_days",
            90,
            (1, 3_650),
            "days",
            Stricter.HIGHER,
            "How long results of health checks and driver faults are kept.",
        )
    ),
    of_platform(
        number(
            "retention.node_metrics_days",
            7,
            (1, 365),
            "days",
            Stricter.HIGHER,
            "How long samples of host and GPU metrics are kept.",
        )
    ),
    of_platform(
        number("retention.task_days", 365, (1, 3_650), "days", Stricter.HIGHER, "How long ended tasks are kept.")
    ),
    of_platform(
        number(
            "retention.flow_days",
            90,
            (1, 3_650),
            "days",
            Stricter.HIGHER,
            "How long flows that ended, what each attempt at a step came to, and orphans that are gone are kept.",
        )
    ),
    of_platform(
        number(
            "nodes.agent_artifact_max_mib",
            512,
            (1, 1_024),
            "MiB",
            Stricter.LOWER,
            "How large a version of the agent may be that is published for nodes.",
        )
    ),
    of_platform(
        number(
            "pki.node_certificate_seconds",
            86_400,
            (60, 604_800),
            "seconds",
            Stricter.LOWER,
            "How long a node's certificate lives; its agent renews it at half of that.",
        )
    ),
    of_platform(
        number(
            "pki.server_certificate_seconds",
            604_800,
            (60, 7_776_000),
            "seconds",
            Stricter.LOWER,
            "How long the certificate of the agents' listener lives; renewed at half of that.",
        )
    ),
    of_platform(
        number(
            "pki.bootstrap_token_seconds",
            3_600,
            (60, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long a token can be used to enrol a node.",
        )
    ),
    of_platform(
        number(
            "pki.superseded_seconds",
            120,
            (0, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long a node's old certificate still counts once the new one was shown.",
        )
    ),
    of_platform(
        number(
            "retention.certificate_days",
            365,
            (1, 3_650),
            "days",
            Stricter.HIGHER,
            "How long ended certificates and used tokens of nodes are remembered.",
        )
    ),
    PolicyKey(
        name="audit.export_allowed",
        default=True,
        stricter=Stricter.OFF,
        levels=frozenset({Level.GLOBAL, Level.ORG}),
        description="Whether the organisation's audit log may be exported as a file.",
    ),
    PolicyKey(
        name="audit.client_ip_shown",
        default="full",
        stricter=Stricter.LATER,
        choices=("full", "network", "hidden"),
        levels=frozenset({Level.GLOBAL, Level.ORG}),
        description="How much of the addresses in its audit log an organisation sees.",
    ),
)

POLICY_KEYS: dict[str, PolicyKey] = {
    key.name: key for key in (*_ALL, *ALLOCATION_KEYS, *BILLING_KEYS, *PAYMENT_KEYS, *NOTIFICATION_KEYS)
}

__all__ = ["POLICY_KEYS", "Level", "PolicyKey", "Stricter", "Value"]
