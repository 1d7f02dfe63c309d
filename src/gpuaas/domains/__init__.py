"""The business, one folder per noun. What a domain declares is found by its file names, so that none can be forgotten:
operations in `routes.py`, reactions and timers in `handlers.py`."""

from importlib import import_module
from pathlib import Path


def load_routes() -> None:
    """Declare every operation."""
    _load("routes.py")


def load_handlers() -> None:
    """Declare every reaction and timer."""
    _load("handlers.py")


def _load(name: str) -> None:
    root = Path(__file__).parent
    for path in sorted(root.rglob(name)):
        import_module(".".join((__name__, *path.relative_to(root).with_suffix("").parts)))
