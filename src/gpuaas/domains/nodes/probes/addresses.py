"""Which addresses may be probed: pure. One that leads to ourselves, to the link, to many or to a cloud's metadata never
is, whatever networks are allowed; of the others, only those in the allowed networks."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
METADATA: frozenset[Address] = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
        ),
    )
)
SIX_TO_FOUR = IPv6Network("2002::/16")
LAST_FOUR_BYTES = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96")))
"""NAT64, NAT64 of a site, and stateless translation: each carries an IPv4 address at its end."""


def networks(text: str) -> tuple[Network, ...]:
    """From a list with commas; ValueError when one is none."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def why_not(text: str, allowed: tuple[Network, ...]) -> str:
    """Why this address is not probed; empty: it may be."""
    try:
        address = inner(ip_address(text.partition("%")[0]))
    except ValueError:
        return "it is not an address"
    rules = [
        (address in METADATA, "it is a cloud's metadata service"),
        (address.is_loopback, "it is this machine itself"),
        (address.is_link_local, "it is of the link only"),
        (address.is_multicast, "it is of many"),
        (address.is_unspecified or address.is_reserved, "it is of nobody"),
        (not any(address in network for network in allowed), "it is in none of the networks that may be probed"),
    ]
    return next((reason for holds, reason in rules if holds), "")


def inner(address: Address) -> Address:
    """An IPv4 address that was dressed as an IPv6 one, as what it is."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in SIX_TO_FOUR and address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in LAST_FOUR_BYTES) or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
