"""The policy keys of allocations: how long they last, what separates tenants, who waits how, how much may be held."""

from gpuaas.contracts.policy_key import PolicyKey, Stricter, number, of_platform

ALLOCATION_KEYS: tuple[PolicyKey, ...] = (
    number(
        "allocations.lease_hours",
        24,
        (1, 8_760),
        "hours",
        Stricter.LOWER,
        "How long an allocation lasts unless it is renewed.",
    ),
    number(
        "allocations.lifetime_hours_max",
        720,
        (1, 87_600),
        "hours",
        Stricter.LOWER,
        "How long an allocation lasts at most, however often it is renewed.",
    ),
    number(
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
    number(
        "allocations.idle_minutes",
        120,
        (1, 10_080),
        "minutes",
        Stricter.LOWER,
        "For how long an allocation's GPUs must be unused before its people are warned.",
    ),
    number(
        "allocations.idle_grace_minutes",
        30,
        (1, 10_080),
        "minutes",
        Stricter.LOWER,
        "How long after that warning an unused allocation is released.",
    ),
    number(
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
    of_platform(
        number(
            "allocations.force_release_attempts",
            5,
            (1, 100),
            "attempts",
            Stricter.LOWER,
            "How often a forced release is tried before the node is quarantined for good.",
        )
    ),
    of_platform(
        number(
            "allocations.force_release_pause_seconds",
            30,
            (1, 3_600),
            "seconds",
            Stricter.HIGHER,
            "How long to wait after the first forced release before the next; doubled each time.",
        )
    ),
    number(
        "allocations.queue_hours",
        72,
        (1, 720),
        "hours",
        Stricter.LOWER,
        "How long a request waits in the queue before it is given up.",
    ),
    of_platform(
        number(
            "allocations.queue_patience_minutes",
            10,
            (0, 10_080),
            "minutes",
            Stricter.LOWER,
            "For how long a request in the queue may be passed by a smaller one that fits.",
        )
    ),
    of_platform(
        number(
            "allocations.share_half_life_hours",
            24,
            (1, 720),
            "hours",
            Stricter.HIGHER,
            "After how long GPUs used count half in the fair share of the queue.",
        )
    ),
    of_platform(
        number(
            "security.data_key_days",
            90,
            (1, 3_650),
            "days",
            Stricter.LOWER,
            "After how long the key that seals sensitive fields is replaced, and all of them are sealed anew.",
        )
    ),
    number("quota.gpus", 64, (0, 1_000_000), "GPUs", Stricter.LOWER, "How many GPUs may be held at once."),
    number(
        "quota.allocations", 200, (0, 100_000), "allocations", Stricter.LOWER, "How many allocations may live at once."
    ),
)
