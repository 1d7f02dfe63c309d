"""A program of its own that works one GPU through CUDA's driver interface and clears its memory: run by the agent with
a time limit, because a driver that hangs or crashes must not take the agent with it. Nothing but the standard library.

    gpu_exercise.py LIBRARY PCI-ADDRESS load|clear SECONDS

Takes nearly all memory of the GPU; with `load`, fills it with patterns, copies it within the GPU and reads every byte
back, for at least so many seconds; always ends by overwriting it with zeros and reading every byte back as zero.
Answers with one line of JSON, `ok` only if all of that was seen. Exit: 0 ok, 1 not."""

import ctypes
import itertools
import json
import sys
import time
from typing import Any

GIB = 1 << 30
LEAST_CHUNK = 2 << 20
PIECE = 32 << 20
LEAST_SHARE = 0.95
"""Of the GPU's whole memory: what the driver keeps for itself is less than the rest."""
PATTERNS = (0x55555555, 0xAAAAAAAA)
_NO_MEMORY = 2
_WHY = {
    "CUDA_ERROR_SYSTEM_NOT_READY": "the NVLink fabric is not up (nvidia-fabricmanager)",
    "CUDA_ERROR_NO_DEVICE": "the driver shows no device",
    "CUDA_ERROR_INVALID_DEVICE": "CUDA has no device at this address",
}


class Failed(Exception):
    pass


class Cuda:
    """Any: ctypes has no type for what a C function takes."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise Failed(f"{library} is not installed: {error}") from None
        self.must("cuInit", ctypes.c_uint(0))

    def call(self, name: str, *arguments: Any) -> int:
        try:
            return int(getattr(self._library, name)(*arguments))
        except AttributeError:
            raise Failed(f"the CUDA driver has no {name}") from None

    def must(self, name: str, *arguments: Any) -> None:
        if code := self.call(name, *arguments):
            spoken = ctypes.c_char_p()
            self.call("cuGetErrorName", ctypes.c_int(code), ctypes.byref(spoken))
            word = (spoken.value or b"").decode(errors="replace") or f"error {code}"
            raise Failed(f"{name}: {word}" + (f": {_WHY[word]}" if word in _WHY else ""))


class Memory:
    """All of one GPU's memory that can be had, in chunks."""

    def __init__(self, cuda: Cuda, address: str) -> None:
        self._cuda = cuda
        device, context = ctypes.c_int(), ctypes.c_void_p()
        cuda.must("cuDeviceGetByPCIBusId", ctypes.byref(device), address.encode())
        cuda.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        cuda.must("cuCtxSetCurrent", context)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        cuda.must("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        self.total = int(total.value)
        self.chunks = self._take()
        self.size = sum(size for _, size in self.chunks)
        self._piece, self._expected = ctypes.create_string_buffer(PIECE), ctypes.create_string_buffer(PIECE)
        self._compare = ctypes.CDLL(None).memcmp
        self._compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

    def _take(self) -> list[tuple[int, int]]:
        chunks, size = [], GIB
        while size >= LEAST_CHUNK:
            pointer = ctypes.c_ulonglong()
            code = self._cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
            if code == 0:
                chunks.append((pointer.value, size))
            elif code == _NO_MEMORY:
                size //= 2
            else:
                self._cuda.must("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return chunks

    def fill(self, pattern: int) -> None:
        for pointer, size in self.chunks:
            words = ctypes.c_size_t(size // 4)
            self._cuda.must("cuMemsetD32_v2", ctypes.c_ulonglong(pointer), ctypes.c_uint(pattern), words)
        self._cuda.must("cuCtxSynchronize")

    def stir(self) -> None:
        """Copy within the GPU: every chunk into its neighbour."""
        for (pointer, size), (other, room) in itertools.pairwise(self.chunks):
            length = ctypes.c_size_t(min(size, room))
            self._cuda.must("cuMemcpyDtoD_v2", ctypes.c_ulonglong(other), ctypes.c_ulonglong(pointer), length)
        self._cuda.must("cuCtxSynchronize")

    def require(self, pattern: int) -> None:
        """Every byte, as the host reads it."""
        ctypes.memmove(self._expected, pattern.to_bytes(4, "little") * (PIECE // 4), PIECE)
        for number, (pointer, size) in enumerate(self.chunks):
            for offset in range(0, size, PIECE):
                length = min(PIECE, size - offset)
                self._cuda.must(
                    "cuMemcpyDtoH_v2", self._piece, ctypes.c_ulonglong(pointer + offset), ctypes.c_size_t(length)
                )
                if self._compare(self._piece, self._expected, length):
                    raise Failed(f"chunk {number}, near byte {offset}: not {pattern:#010x} as written")

    def free(self) -> None:
        for pointer, _ in self.chunks:
            self._cuda.call("cuMemFree_v2", ctypes.c_ulonglong(pointer))
        self.chunks = []


def exercise(library: str, address: str, *, load: bool, seconds: float) -> str:
    """What was seen, in words; Failed otherwise."""
    started = time.monotonic()
    memory = Memory(Cuda(library), address)
    rounds = 0
    try:
        if memory.size < memory.total * LEAST_SHARE:
            raise Failed(f"only {memory.size} of {memory.total} bytes could be had: somebody uses the GPU")
        for pattern in itertools.cycle(PATTERNS) if load else ():
            memory.fill(pattern)
            memory.stir()
            memory.require(pattern)
            rounds += 1
            if rounds >= len(PATTERNS) and time.monotonic() - started >= seconds:
                break
        memory.fill(0)
        memory.require(0)
    finally:
        memory.free()
    worked = f"{rounds} rounds of patterns, then " if load else ""
    took = time.monotonic() - started
    return f"{worked}{memory.size} of {memory.total} bytes overwritten and read back as zero in {took:.1f} s"


def main(arguments: list[str]) -> int:
    library, address, mode, seconds = arguments
    try:
        ok, detail = True, exercise(library, address, load=mode == "load", seconds=float(seconds))
    except Failed as failure:
        ok, detail = False, str(failure)
    sys.stdout.write(json.dumps({"ok": ok, "detail": detail}) + "\n")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
