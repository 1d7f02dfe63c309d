"""What the environment says to the command line; read here and nowhere else."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


class Environment:
    """GPUAAS_URL, GPUAAS_CONTEXT, GPUAAS_TOKEN, GPUAAS_PLAIN_HTTP, NO_COLOR and where files belong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.url = environ.get("GPUAAS_URL", "")
        self.context = environ.get("GPUAAS_CONTEXT", "")
        self.token = environ.get("GPUAAS_TOKEN", "").strip()
        self.plain_http = environ.get("GPUAAS_PLAIN_HTTP", "") not in {"", "0"}
        self.browser = environ.get("BROWSER", "")
        self.has_display = bool(
            environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or self.browser or sys.platform == "darwin"
        )
        self.colour = "NO_COLOR" not in environ and environ.get("TERM", "") != "dumb"
        self.home = home = Path(environ.get("HOME") or Path.home())
        self.config_directory = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "gpuaas"
        self.cache_directory = Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "gpuaas"


def read_environment() -> Environment:
    return Environment(os.environ)
