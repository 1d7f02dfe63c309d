"""A page in the browser of whoever sits here."""

import contextlib
import subprocess
import sys


def open_browser(url: str) -> bool:
    """In another process, so that what a browser prints or how it hangs is not ours."""
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "webbrowser", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return True
    return False
