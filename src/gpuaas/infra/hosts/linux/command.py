"""Programs of the host: argument lists, a known environment, no input, bounded time and output."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from gpuaas.ports.host import HostFailed

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
MAX_OUTPUT = 4000
_ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C", "HOME": "/nonexistent"}


@dataclass(frozen=True)
class Ended:
    code: int
    output: str


def run(
    argv: Sequence[str],
    *,
    timeout_seconds: float = 30,
    accept: Sequence[int] = (0,),
    uid: int | None = None,
    path: str = PATH,
) -> Ended:
    """Run to its end; HostFailed when it is missing, too slow, or ends with a code nobody accepts."""
    try:
        done = subprocess.run(
            [shutil.which(argv[0], path=path) or argv[0], *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_ENVIRONMENT | {"PATH": path},
            cwd="/",
            timeout=timeout_seconds,
            check=False,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )
    except FileNotFoundError:
        raise HostFailed("program_missing", f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise HostFailed("program_slow", f"{argv[0]} did not end within {timeout_seconds:.0f} s") from None
    except OSError as error:
        raise HostFailed("program_failed", f"{argv[0]} could not be started: {error.strerror}") from None
    ended = Ended(done.returncode, done.stdout[:MAX_OUTPUT].decode(errors="replace").strip())
    if ended.code not in accept:
        raise HostFailed("program_failed", f"{argv[0]} ended with {ended.code}: {ended.output[:300]}")
    return ended
