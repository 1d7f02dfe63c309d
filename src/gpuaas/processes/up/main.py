"""`gpuaas up`: reads options and environment, runs the product until asked to stop.

Exit 0 after an orderly stop, 1 with one clear line when something is wrong, 130 when forced.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.processes.settings import SettingsError, load_settings
from gpuaas.processes.up.data_directory import DataDirectory
from gpuaas.processes.up.demo_key import demo_key
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.fleet import FOLDER
from gpuaas.processes.up.fleet_seed import seed_fleet
from gpuaas.processes.up.options import Options, parse_options
from gpuaas.processes.up.product import Product
from gpuaas.processes.up.report import Report
from gpuaas.processes.up.seed import demo_logins, seed

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Asked for by the first signal, forced by the second."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()

    def listen(self) -> None:
        """Take the signals from now on; a hang-up that `nohup` told us to ignore stays ignored."""
        for number in _STOP_SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            asyncio.get_running_loop().add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        (self.forced if self.asked.is_set() else self.asked).set()


async def run(options: Options, environ: Mapping[str, str], report: Report) -> int:
    """Start, stay, stop; whatever happens, nothing we started is left running."""
    began, stop = time.monotonic(), StopRequest()
    stop.listen()
    with DataDirectory(options.data_dir) as data:
        report.line(f"GPUaaS is starting; its data is in {data.path}")
        product = Product(options, environ, data, report)
        animation = asyncio.create_task(report.animate())
        starting = asyncio.create_task(product.start())
        asked = asyncio.create_task(stop.asked.wait())
        try:
            await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                url, logins = starting.result()
                report.welcome(url, logins, time.monotonic() - began)
                failure = product.supervisor.failure
                either: set[asyncio.Future[Any]] = {failure, asked}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if failure.done():
                    raise failure.result()
        finally:
            animation.cancel()
            starting.cancel()
            await asyncio.wait({animation, starting})
            if product.supervisor.processes():
                report.line("Stopping; Ctrl-C again forces it.")
            await product.stop(stop.forced)
    report.line("Stopped.")
    return 130 if stop.forced.is_set() else 0


async def _seed(options: Options) -> None:
    settings = load_settings(os.environ)
    await seed(settings, demo_logins(options.data_dir), demo_key(options.data_dir))
    await seed_fleet(settings, options.data_dir / FOLDER, options.fleet)


def main(argv: Sequence[str]) -> int:
    """The program; every foreseeable failure is one line on stderr."""
    options = parse_options(argv)
    try:
        if options.seed_only:
            asyncio.run(_seed(options))
            return 0
        return asyncio.run(run(options, dict(os.environ), Report()))
    except (UpError, EmbeddedError, SettingsError) as error:
        complaint, quoted = str(error), getattr(error, "quoted", ())
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complaint, quoted = f"{where}{error.strerror or error}", ()
    sys.stderr.write(f"gpuaas up: {complaint}\n" + "".join(f"    {line}\n" for line in quoted))
    return 1
