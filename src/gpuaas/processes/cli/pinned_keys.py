"""The public keys certificates are checked with, kept beside the configuration: seen once, they are trusted from then
on without the network.

Always holds: a key that was kept is never replaced by another of its name; whoever offers another one is told of."""

from datetime import datetime
from pathlib import Path

import msgspec

from gpuaas.client import private_file
from gpuaas.client.errors import FileRefused
from gpuaas.contracts.http.allocations import CertificateKey, CertificateKeys
from gpuaas.processes.cli.failures import Stop, UsageError


class PinnedKeys:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "certificate-keys.json"

    def read(self) -> list[CertificateKey]:
        content = private_file.read(self.path)
        if content is None:
            return []
        try:
            return msgspec.json.decode(content, type=CertificateKeys).keys
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FileRefused(
                f"{self.path} cannot be read: {error}. Mend it, or delete it and download again."
            ) from error

    def keep(self, told: list[CertificateKey]) -> list[str]:
        """Keep what was told; ids of those that are new."""
        with private_file.locked(self.path):
            known = {key.key_id: key for key in self.read()}
            for key in told:
                if key.key_id in known and known[key.key_id].public_key != key.public_key:
                    raise Stop(
                        f"The key {key.key_id} is not the one that was kept: somebody may be forging certificates.",
                        f"The kept one is in {self.path}; ask your operator which of them is real.",
                    )
            fresh = [key.key_id for key in told if key.key_id not in known]
            merged = known | {key.key_id: key for key in told}  # the end of a key's time may be known by now
            if list(merged.values()) != list(known.values()):
                body = msgspec.json.encode(CertificateKeys(keys=list(merged.values())))
                private_file.write(self.path, msgspec.json.format(body) + b"\n")
        return fresh


def keys_in(path: Path) -> list[CertificateKey]:
    """Of a file somebody gave: what `gpuaas certificates keys --output json` prints."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=CertificateKeys).keys
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} holds no keys.", "Make such a file with: gpuaas certificates keys --output json > keys.json"
        ) from error


def signs_at(key: CertificateKey, at: datetime) -> bool:
    """Whether the key signed at that time; what it signed outside of it is not ours."""
    return key.signs_from <= at and (key.signs_until is None or at <= key.signs_until)
