"""Single values from files of the kernel. A file that is missing or refuses to be read is no value, never an error."""

from pathlib import Path


def text(path: Path, default: str = "") -> str:
    try:
        return path.read_text(errors="replace").strip("\0 \n")
    except OSError:
        return default


def number(path: Path, default: int = 0, *, base: int = 10) -> int:
    try:
        return int(text(path), base)
    except ValueError:
        return default


def content(path: Path, most: int = 65_536) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""


def link_name(path: Path) -> str:
    """The last step of where a link points; empty when there is no link."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def children(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []
