"""What the domain is told by the program it runs in: which certificate authority, and under which name."""

import msgspec

from gpuaas.ports.ca import CertificateAuthority


class Pki(msgspec.Struct, frozen=True, kw_only=True):
    ca: CertificateAuthority
    trust_domain: str
    agent_url: str = ""
    """Where agents reach their listener."""
