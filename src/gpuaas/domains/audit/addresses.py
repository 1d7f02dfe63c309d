"""How much of a client's address is shown, by the policy audit.client_ip_shown."""

from ipaddress import ip_address, ip_network

_PREFIX = {4: 24, 6: 48}


def shown(address: str, how: str) -> str:
    """All of it, its network, or nothing. What is no address is shown only when all is."""
    if how == "full" or not address:
        return address
    if how != "network":
        return ""
    try:
        parsed = ip_address(address)
    except ValueError:
        return ""
    return str(ip_network(f"{parsed}/{_PREFIX[parsed.version]}", strict=False))
