"""The issuer's two cookies: the browser's session and the secret its forms are derived from. Scripts cannot read them,
other sites' posts do not carry them, and over https their names keep subdomains from setting them."""

from gpuaas.domains.issuer.provider import Issuer

FORM_SECONDS = 86_400


def session_name(issuer: Issuer) -> str:
    return "__Host-gpuaas-issuer" if issuer.secure else "gpuaas-issuer"


def form_name(issuer: Issuer) -> str:
    return "__Host-gpuaas-form" if issuer.secure else "gpuaas-form"


def cookie(issuer: Issuer, name: str, value: str, *, seconds: int) -> str:
    """A Set-Cookie header; with 0 seconds the browser forgets it."""
    secure = "; Secure" if issuer.secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
