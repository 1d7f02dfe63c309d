"""The policy keys of money: who may change a balance alone, and how often usage is charged."""

from gpuaas.contracts.policy_key import PolicyKey, Stricter, number, of_platform

BILLING_KEYS: tuple[PolicyKey, ...] = (
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
            "Up to which amount one operator may adjust a balance alone; above it a second one has to approve.",
        )
    ),
)
