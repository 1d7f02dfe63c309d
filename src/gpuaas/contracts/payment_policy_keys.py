"""The policy keys of payments: how much one may be, how long its page stays open, and how long
what the provider said is kept."""

from gpuaas.contracts.policy_key import PolicyKey, Stricter, by_platform, number, of_platform

_MOST = 1_000_000_000_000

PAYMENT_KEYS: tuple[PolicyKey, ...] = (
    by_platform(
        number(
            "payments.top_up_min_micros",
            5_000_000,
            (1_000_000, _MOST),
            "micros",
            Stricter.HIGHER,
            "The smallest top-up: below it, the provider's fee eats it.",
        )
    ),
    by_platform(
        number(
            "payments.top_up_max_micros",
            10_000_000_000,
            (1_000_000, _MOST),
            "micros",
            Stricter.LOWER,
            "The largest top-up by one payment.",
        )
    ),
    of_platform(
        number(
            "payments.checkout_minutes",
            60,
            (31, 1_439),
            "minutes",
            Stricter.LOWER,
            "How long somebody has to pay; then the page is closed, and the payment has expired.",
        )
    ),
    of_platform(
        number(
            "retention.webhook_days",
            90,
            (30, 3_650),
            "days",
            Stricter.HIGHER,
            "How long notices of the payment provider are kept after they were acted on, and reports of comparisons.",
        )
    ),
    of_platform(
        number(
            "retention.payment_statement_days",
            400,
            (30, 3_650),
            "days",
            Stricter.HIGHER,
            "How long what the provider's lists said is kept object by object; then only its sum is.",
        )
    ),
)
