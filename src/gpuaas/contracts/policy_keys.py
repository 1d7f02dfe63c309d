"""The policy keys: every threshold of the product, with its type, bounds, default and the direction in which it gets
stricter. A key missing here cannot be read, set or explained; a test holds that each key here is read somewhere."""

from enum import StrEnum

import msgspec

Value = int | bool | str


class Level(StrEnum):
    """Where a value is set. The nearest to the subject wins, up to the guardrails above it."""

    GLOBAL = "global"
    ORG = "org"
    PROJECT = "project"


class Stricter(StrEnum):
    """Which of two values of a key is the stricter one. Of a choice it is the one listed later."""

    LOWER = "lower"
    HIGHER = "higher"
    ON = "on"
    OFF = "off"
    LATER = "later"


class PolicyKey(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    default: Value
    stricter: Stricter
    description: str
    unit: str = ""
    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    levels: frozenset[Level] = frozenset(Level)
    platform_only: bool = False
    """Only the platform sets it, at whatever level: organisations read it."""

    @property
    def kind(self) -> type[int] | type[bool] | type[str]:
        return type(self.default)


def _number(
    name: str, default: int, bounds: tuple[int, int], unit: str, stricter: Stricter, description: str
) -> PolicyKey:
    return PolicyKey(
        name=name,
        default=default,
        minimum=bounds[0],
        maximum=bounds[1],
        unit=unit,
        stricter=stricter,
        description=description,
    )


def _of_platform(key: PolicyKey) -> PolicyKey:
    """The same key, with one value for the whole installation."""
    return msgspec.structs.replace(key, levels=frozenset({Level.GLOBAL}), platform_only=True)


def _by_platform(key: PolicyKey) -> PolicyKey:
    """The same key, set by the platform alone: for all organisations, or for one."""
    return msgspec.structs.replace(key, levels=frozenset({Level.GLOBAL, Level.ORG}), platform_only=True)


def _rate(lane: str, per_minute: int, burst: int, whose: str) -> tuple[PolicyKey, PolicyKey]:
    return (
        _of_platform(
            _number(
                f"rate_limit.{lane}_per_minute",
                per_minute,
                (1, 1_000_000),
                "requests per minute",
                Stricter.LOWER,
                f"How many requests a minute {whose} may send in the {lane} lane.",
            )
        ),
        _of_platform(
            _number(
                f"rate_limit.{lane}_burst",
                burst,
                (1, 100_000),
                "requests",
                Stricter.LOWER,
                f"How many requests at once {whose} may send in the {lane} lane.",
            )
        ),
    )


_ALL: tuple[PolicyKey, ...] = (
    *_rate("default", 6_000, 600, "an actor"),
    *_rate("financial", 120, 30, "an actor"),
    *_rate("admin", 1_200, 200, "an actor"),
    *_rate("terminal", 120, 30, "an actor"),
    *_rate("auth", 120, 60, "an address or actor"),
    *_rate("enrolment", 6_000, 1_000, "an address with good tokens"),
    _of_platform(
        _number(
            "rate_limit.bad_credentials_per_minute",
            60,
            (1, 100_000),
            "requests per minute",
            Stricter.LOWER,
            "How many unknown credentials a minute an address may try.",
        )
    ),
    _number("identity.invitation_days", 7, (1, 90), "days", Stricter.LOWER, "How long an invitation can be accepted."),
    _number(
        "identity.service_account_key_max_days",
        365,
        (1, 3_650),
        "days",
        Stricter.LOWER,
        "How long a service account's key may live at most.",
    ),
    _number(
        "identity.service_account_keys_max",
        10,
        (1, 100),
        "keys",
        Stricter.LOWER,
        "How many live keys one service account may have.",
    ),
    _of_platform(
        _number(
            "identity.ssh_keys_max", 50, (1, 500), "keys", Stricter.LOWER, "How many SSH public keys one user may have."
        )
    ),
    _of_platform(
        _number(
            "identity.orgs_per_user_max",
            100,
            (1, 10_000),
            "organisations",
            Stricter.LOWER,
            "How many organisations one user may own beside the personal one and still create another.",
        )
    ),
    _by_platform(
        _number(
            "identity.projects_per_org_max",
            1_000,
            (1, 100_000),
            "projects",
            Stricter.LOWER,
            "How many projects one organisation may have.",
        )
    ),
    _by_platform(
        _number(
            "identity.service_accounts_per_org_max",
            500,
            (1, 100_000),
            "service accounts",
            Stricter.LOWER,
            "How many service accounts one organisation may have.",
        )
    ),
    _of_platform(
        _number(
            "issuer.access_token_seconds",
            900,
            (60, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long an access token of the built-in issuer lives.",
        )
    ),
    _of_platform(
        _number(
            "issuer.refresh_token_days",
            30,
            (1, 365),
            "days",
            Stricter.LOWER,
            "How long a session of the built-in issuer lives without being used.",
        )
    ),
    _of_platform(
        _number(
            "issuer.device_code_seconds",
            600,
            (60, 1_800),
            "seconds",
            Stricter.LOWER,
            "How long a device code can be entered.",
        )
    ),
    _of_platform(
        _number(
            "issuer.session_hours",
            12,
            (1, 720),
            "hours",
            Stricter.LOWER,
            "How long a browser stays logged in at the built-in issuer.",
        )
    ),
    _of_platform(
        _number(
            "issuer.login_free_attempts",
            5,
            (1, 100),
            "attempts",
            Stricter.LOWER,
            "How many wrong passwords in a row make an address wait before the next.",
        )
    ),
    _of_platform(
        _number(
            "issuer.lockout_max_seconds",
            900,
            (1, 86_400),
            "seconds",
            Stricter.HIGHER,
            "How long an address waits at most between wrong passwords; the wait doubles up to it.",
        )
    ),
    _of_platform(
        _number(
            "retention.idempotency_days",
            30,
            (1, 365),
            "days",
            Stricter.HIGHER,
            "How long a repeated request gets its first answer back.",
        )
    ),
    _of_platform(
        _number(
            "retention.outbox_days",
            30,
            (8, 3_650),
            "days",
            Stricter.HIGHER,
            "How long events are kept after they were published.",
        )
    ),
    _of_platform(
        _number(
            "audit.checkpoint_seconds",
            60,
            (1, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long sealed audit rows may wait for a signed checkpoint.",
        )
    ),
    _of_platform(
        _number(
            "audit.checkpoint_rows",
            10_000,
            (1, 1_000_000),
            "rows",
            Stricter.LOWER,
            "After how many sealed audit rows a checkpoint is signed at once.",
        )
    ),
    _of_platform(
        _number(
            "nodes.lease_seconds",
            15,
            (3, 600),
            "seconds",
            Stricter.LOWER,
            "How long a node may be silent before nobody claims to know how it is.",
        )
    ),
    _of_platform(
        _number(
            "nodes.lost_seconds",
            300,
            (5, 86_400),
            "seconds",
            Stricter.LOWER,
            "How long a node may be silent before it counts as lost.",
        )
    ),
    _of_platform(
        _number(
            "nodes.strikes_max",
            3,
            (1, 100),
            "strikes",
            Stricter.LOWER,
            "With how many quarantines a GPU is no longer checked for its return without an operator.",
        )
    ),
    _of_platform(
        _number(
            "nodes.failed_provisions_max",
            2,
            (1, 100),
            "tasks",
            Stricter.LOWER,
            "How many provisions in a row may fail on a node before it is quarantined.",
        )
    ),
    _of_platform(
        _number(
            "retention.node_health_days",
            90,
            (1, 3_650),
            "days",
            Stricter.HIGHER,
            "How long results of health checks and driver faults are kept.",
        )
    ),
    _of_platform(
        _number(
            "retention.node_metrics_days",
            7,
            (1, 365),
            "days",
            Stricter.HIGHER,
            "How long samples of host and GPU metrics are kept.",
        )
    ),
    _of_platform(
        _number("retention.task_days", 365, (1, 3_650), "days", Stricter.HIGHER, "How long ended tasks are kept.")
    ),
    _of_platform(
        _number(
            "nodes.agent_artifact_max_mib",
            512,
            (1, 1_024),
            "MiB",
            Stricter.LOWER,
            "How large a version of the agent may be that is published for nodes.",
        )
    ),
    _of_platform(
        _number(
            "pki.node_certificate_seconds",
            86_400,
            (60, 604_800),
            "seconds",
            Stricter.LOWER,
            "How long a node's certificate lives; its agent renews it at half of that.",
        )
    ),
    _of_platform(
        _number(
            "pki.server_certificate_seconds",
            604_800,
            (60, 7_776_000),
            "seconds",
            Stricter.LOWER,
            "How long the certificate of the agents' listener lives; renewed at half of that.",
        )
    ),
    _of_platform(
        _number(
            "pki.bootstrap_token_seconds",
            3_600,
            (60, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long a token can be used to enrol a node.",
        )
    ),
    _of_platform(
        _number(
            "pki.superseded_seconds",
            120,
            (0, 3_600),
            "seconds",
            Stricter.LOWER,
            "How long a node's old certificate still counts once the new one was shown.",
        )
    ),
    _of_platform(
        _number(
            "retention.certificate_days",
            365,
            (1, 3_650),
            "days",
            Stricter.HIGHER,
            "How long ended certificates and used tokens of nodes are remembered.",
        )
    ),
    _number(
        "allocations.lease_hours",
        24,
        (1, 8_760),
        "hours",
        Stricter.LOWER,
        "How long an allocation lasts unless it is renewed.",
    ),
    _number(
        "allocations.lifetime_hours_max",
        720,
        (1, 87_600),
        "hours",
        Stricter.LOWER,
        "How long an allocation lasts at most, however often it is renewed.",
    ),
    _number(
        "allocations.expiry_warning_minutes",
        30,
        (1, 10_080),
        "minutes",
        Stricter.HIGHER,
        "How long before the end of its lease an allocation's people are warned.",
    ),
    PolicyKey(
        name="allocations.idle_reclaim",
        default=False,
        stricter=Stricter.ON,
        description="Whether an allocation whose GPUs nobody uses is released, after a warning.",
    ),
    _number(
        "allocations.idle_minutes",
        120,
        (1, 10_080),
        "minutes",
        Stricter.LOWER,
        "For how long an allocation's GPUs must be unused before its people are warned.",
    ),
    _number(
        "allocations.idle_grace_minutes",
        30,
        (1, 10_080),
        "minutes",
        Stricter.LOWER,
        "How long after that warning an unused allocation is released.",
    ),
    _number(
        "allocations.idle_percent",
        5,
        (0, 100),
        "percent",
        Stricter.HIGHER,
        "Up to which use of its GPUs an allocation counts as unused.",
    ),
    PolicyKey(
        name="allocations.isolation",
        default="user-revoke",
        stricter=Stricter.LATER,
        choices=("user-revoke", "full-reimage"),
        description="What separates one tenant from the next: the account is taken away, or the node is set up anew.",
    ),
    PolicyKey(
        name="allocations.whole_node_only",
        default=False,
        stricter=Stricter.ON,
        description="Whether allocations take whole nodes only, so that no stranger is a neighbour.",
    ),
    PolicyKey(
        name="allocations.node_lost_action",
        default="keep",
        stricter=Stricter.LATER,
        choices=("keep", "end"),
        description="What happens to an allocation whose node is lost: it waits, degraded, or it is ended.",
    ),
    _of_platform(
        _number(
            "allocations.force_release_attempts",
            5,
            (1, 100),
            "attempts",
            Stricter.LOWER,
            "How often a forced release is tried before the node is quarantined for good.",
        )
    ),
    _of_platform(
        _number(
            "allocations.force_release_pause_seconds",
            30,
            (1, 3_600),
            "seconds",
            Stricter.HIGHER,
            "How long to wait after the first forced release before the next; doubled each time.",
        )
    ),
    _number(
        "allocations.queue_hours",
        72,
        (1, 720),
        "hours",
        Stricter.LOWER,
        "How long a request waits in the queue before it is given up.",
    ),
    _of_platform(
        _number(
            "allocations.queue_patience_minutes",
            10,
            (0, 10_080),
            "minutes",
            Stricter.LOWER,
            "For how long a request in the queue may be passed by a smaller one that fits.",
        )
    ),
    _of_platform(
        _number(
            "allocations.share_half_life_hours",
            24,
            (1, 720),
            "hours",
            Stricter.HIGHER,
            "After how long GPUs used count half in the fair share of the queue.",
        )
    ),
    _number("quota.gpus", 64, (0, 1_000_000), "GPUs", Stricter.LOWER, "How many GPUs may be held at once."),
    _number(
        "quota.allocations", 200, (0, 100_000), "allocations", Stricter.LOWER, "How many allocations may live at once."
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

POLICY_KEYS: dict[str, PolicyKey] = {key.name: key for key in _ALL}
