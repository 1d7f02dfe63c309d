"""Objects by URL: a folder of this machine (file:///…) or a bucket (s3://bucket/prefix, with AWS_… from the
environment), through obstore.

Always holds: the folder is for its owner alone; an object is there whole or not at all."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, S3Store

from gpuaas.ports.objects import ObjectMissing, Objects, ObjectsAway


class NoObjects(Objects):
    """Where no URL was set."""

    async def put(self, name: str, content: bytes) -> None:
        raise ObjectsAway("GPUAAS_OBJECTS_URL is not set")

    async def get(self, name: str) -> bytes:
        raise ObjectsAway("GPUAAS_OBJECTS_URL is not set")

    async def delete(self, names: Sequence[str]) -> None:
        raise ObjectsAway("GPUAAS_OBJECTS_URL is not set")


class StoredObjects(Objects):
    def __init__(self, url: str) -> None:
        self._folder = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
        self._store: LocalStore | S3Store
        if self._folder is not None:
            self._store = LocalStore(prefix=self._folder, mkdir=True)
            self._folder.chmod(0o700)
        else:
            self._store = S3Store.from_url(url)

    async def put(self, name: str, content: bytes) -> None:
        try:
            await obstore.put_async(self._store, name, content)
        except (BaseError, OSError) as error:
            raise ObjectsAway(_line(error)) from error

    async def get(self, name: str) -> bytes:
        try:
            found = await obstore.get_async(self._store, name)
            return bytes(await found.bytes_async())
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(name) from error
        except (BaseError, OSError) as error:
            raise ObjectsAway(_line(error)) from error

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                await obstore.delete_async(self._store, name)
            except (NotFoundError, FileNotFoundError):
                continue
            except (BaseError, OSError) as error:
                raise ObjectsAway(_line(error)) from error


def open_objects(url: str) -> Objects:
    """ObjectsAway, in one line, when nothing can be kept there."""
    if not url:
        return NoObjects()
    try:
        return StoredObjects(url)
    except (BaseError, OSError, ValueError) as error:
        raise ObjectsAway(f"cannot keep files at GPUAAS_OBJECTS_URL {url}: {_line(error)}") from error


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
