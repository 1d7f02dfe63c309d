"""What is said when a deposit is not there can be done as it stands."""

from gpuaas.domains.allocations.money.deposit import refusal
from gpuaas.kit.money import MICROS

LEAST = 5 * MICROS


def said(needed: int, available: int) -> str:
    return refusal(needed=needed, available=available, minutes=60, micros_per_hour=needed, currency="USD", least=LEAST)


def test_what_is_missing_is_to_be_topped_up_in_whole_hundredths():
    assert said(12 * MICROS, 1).endswith("Top up 12.00 USD or more: gpuaas billing top-up 12.00")


def test_less_than_the_smallest_payment_is_never_advised():
    assert said(3 * MICROS, 0).endswith("gpuaas billing top-up 5.00")
    assert said(0, 0).endswith("gpuaas billing top-up 5.00")
