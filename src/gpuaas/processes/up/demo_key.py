"""The demo's SSH key: DATA/demo_ed25519, made once, readable by its owner only. With it the demo's tenant owner can ask
for GPUs at once; real people bring their own."""

from __future__ import annotations

from pathlib import Path

from gpuaas.infra.embedded.files import read_private, write_private
from gpuaas.processes.up.errors import UpError

NAME = "demo_ed25519"
_COMMENT = "demo"


def demo_key(data: Path) -> str:
    """Its public half, as one line."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = data / NAME
    content = read_private(path)
    if content is None:
        made = Ed25519PrivateKey.generate()
        content = made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        write_private(path, content)
    try:
        public = serialization.load_ssh_private_key(content, password=None).public_key()
        line = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    except ValueError:
        raise UpError(f"{path} is damaged; remove it to get a new key of the demo") from None
    write_private(path.with_suffix(".pub"), f"{line} {_COMMENT}\n".encode())
    return f"{line} {_COMMENT}"
