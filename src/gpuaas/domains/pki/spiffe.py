"""The name of a node inside its certificate: spiffe://<trust domain>/node/<id>. Always holds: a certificate has exactly
one name, of this form, or it names nobody."""

import re
from uuid import UUID

from cryptography import x509

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def node_name(trust_domain: str, node_id: UUID) -> str:
    return f"spiffe://{trust_domain}/node/{node_id}"


def node_of(trust_domain: str, name: str) -> UUID | None:
    """Written exactly as we write it: no other domain, path, case, port, query or escape."""
    match = re.fullmatch(rf"spiffe://{re.escape(trust_domain)}/node/({_ID})", name, re.ASCII)
    return UUID(match[1]) if match else None


def node_of_certificate(trust_domain: str, certificate: x509.Certificate) -> UUID | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return None
    found = list(names)
    if len(found) != 1 or not isinstance(found[0], x509.UniformResourceIdentifier):
        return None
    return node_of(trust_domain, found[0].value)
