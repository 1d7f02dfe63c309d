"""The policy keys of what people are told: who counts as away, how long links work, how long all of it is kept."""

from gpuaas.contracts.policy_key import PolicyKey, Stricter, by_platform, number, of_platform

NOTIFICATION_KEYS: tuple[PolicyKey, ...] = (
    of_platform(
        number(
            "notifications.offline_minutes",
            10,
            (1, 1_440),
            "minutes",
            Stricter.LOWER,
            "How long after a user's last request he counts as offline, for those who want email only then.",
        )
    ),
    of_platform(
        number(
            "notifications.link_hours",
            72,
            (1, 720),
            "hours",
            Stricter.LOWER,
            "How long a one-click link works.",
        )
    ),
    by_platform(
        number(
            "notifications.top_up_micros",
            50_000_000,
            (1_000_000, 1_000_000_000_000),
            "micros",
            Stricter.LOWER,
            "How much the link in an email about a balance asks to be paid in.",
        )
    ),
    of_platform(
        number(
            "retention.notification_days",
            90,
            (1, 3_650),
            "days",
            Stricter.HIGHER,
            "How long notifications, emails that ended and one-click links are kept.",
        )
    ),
)
