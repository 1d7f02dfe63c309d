"""The policy keys of money: who may change a balance alone, how often usage is charged, what happens at zero."""

from gpuaas.contracts.policy_key import PolicyKey, Stricter, by_platform, number, of_platform

BILLING_KEYS: tuple[PolicyKey, ...] = (
    by_platform(
        number(
            "billing.fault_credit_minutes",
            60,
            (0, 10_080),
            "minutes",
            Stricter.LOWER,
            "How many minutes of its price an allocation is credited for a hardware fault of one of its GPUs; at most "
            "what it has cost.",
        )
    ),
    by_platform(
        number(
            "billing.hold_minutes",
            60,
            (0, 43_200),
            "minutes",
            Stricter.HIGHER,
            "How many minutes of its price are set aside for an allocation from its request to its end.",
        )
    ),
    of_platform(
        number(
            "billing.window_seconds",
            60,
            (10, 3_600),
            "seconds",
            Stricter.LOWER,
            "How often what is used is charged. What it costs in all does not depend on it.",
        )
    ),
    of_platform(
        number(
            "billing.adjustment_four_eyes_micros",
            100_000_000,
            (0, 1_000_000_000_000_000),
            "micros",
            Stricter.LOWER,
            "How much one operator may adjust alone within 24 hours; above it a second one has to approve.",
        )
    ),
    by_platform(
        number(
            "billing.low_runway_hours",
            24,
            (0, 720),
            "hours",
            Stricter.HIGHER,
            "With how many hours left at what runs now a balance is low, and its people are told; 0: never.",
        )
    ),
    by_platform(
        number(
            "billing.stop_minutes",
            15,
            (0, 43_200),
            "minutes",
            Stricter.LOWER,
            "How long after a balance is used up what runs is stopped.",
        )
    ),
    by_platform(
        number(
            "billing.grace_hours",
            24,
            (0, 2_160),
            "hours",
            Stricter.LOWER,
            "How long what was stopped for an empty balance is kept before it is released.",
        )
    ),
    number(
        "billing.budget_grace_minutes",
        60,
        (0, 43_200),
        "minutes",
        Stricter.LOWER,
        "How long after a project's hard budget is reached what runs in it is stopped.",
    ),
)
