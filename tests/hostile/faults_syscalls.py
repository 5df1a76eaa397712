"""Deaths and errors at any call of the system: a child process is traced, and ended or failed at its k-th call.

What counts are calls that change files or their names, made by Python or by any library below it. The tracer knows
Linux on x86-64; elsewhere :func:`can_trace` is false.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

TRACEME, GETREGS, SETREGS, SYSCALL, SETOPTIONS = 0, 12, 13, 24, 0x4200
MARKS_SYSCALLS, ENDS_WITH_TRACER = 0x1, 0x100000
CALLS = {
    1: "write", 18: "pwrite64", 20: "writev", 32: "dup", 73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate",
    77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 90: "chmod",
    91: "fchmod", 257: "openat", 258: "mkdirat", 263: "unlinkat", 264: "renameat", 265: "linkat", 268: "fchmodat",
    285: "fallocate", 316: "renameat2", 452: "fchmodat2",
}  # fmt: skip
"""Calls of x86-64 Linux that count: those that make, write, rename, remove, lock or open files."""


class Registers(ctypes.Structure):
    """user_regs_struct of <sys/user.h>."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
        "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs")]  # fmt: skip


@dataclass(frozen=True)
class Ending:
    """How a traced child ended: the calls that counted, its exit code (None: killed), and what it raised last."""

    calls: list[str]
    code: int | None
    said: str


def traced(work: Callable[[], object], at: int | None = None, errno: int | None = None) -> Ending:
    """Do some work in a forked child; kill it before its call number ``at``, or let this call fail with ``errno``.

    The child ends with code 0 where the work does, and with 3 where it raises; ``said`` is then its traceback.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_traced(work, writing)
    os.close(writing)
    calls, code = _follow(child, at, errno)
    with os.fdopen(reading, "r", errors="replace") as pipe:
        return Ending(calls, code, pipe.read())


def _be_traced(work: Callable[[], object], said: int) -> None:
    """The child: it never returns."""
    code = 3
    try:
        _ptrace(TRACEME, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        work()
        code = 0
    except BaseException:
        os.kill(os.getpid(), signal.SIGSTOP)  # what follows is no part of the work
        os.write(said, traceback.format_exc().encode()[-8000:])
    finally:
        os._exit(code)


def _follow(child: int, at: int | None, errno: int | None) -> tuple[list[str], int | None]:
    """Let the child go from call to call; the calls that counted, and its exit code."""
    calls: list[str] = []
    _, status = os.waitpid(child, 0)
    _ptrace(SETOPTIONS, child, 0, MARKS_SYSCALLS | ENDS_WITH_TRACER)
    is_entry, fails, is_work, resumed = True, False, True, 0
    while True:
        _ptrace(SYSCALL, child, 0, resumed)
        _, status = os.waitpid(child, 0)
        resumed = 0
        if os.WIFSIGNALED(status):
            return calls, None
        if os.WIFEXITED(status):
            return calls, os.WEXITSTATUS(status)
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            is_work = is_work and os.WSTOPSIG(status) != signal.SIGSTOP
            resumed = 0 if os.WSTOPSIG(status) == signal.SIGSTOP else os.WSTOPSIG(status)
            continue
        registers = Registers()
        _ptrace(GETREGS, child, 0, ctypes.byref(registers))
        if is_entry and is_work and registers.orig_rax in CALLS:
            calls.append(CALLS[registers.orig_rax])
            if len(calls) - 1 == at:
                if errno is None:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    return calls, None
                registers.orig_rax, fails = 2**64 - 1, True
                _ptrace(SETREGS, child, 0, ctypes.byref(registers))
        elif not is_entry and fails:
            registers.rax, fails = 2**64 - (errno or 0), False
            _ptrace(SETREGS, child, 0, ctypes.byref(registers))
        is_entry = not is_entry


def _ptrace(request: int, child: int, address: int, data: object) -> None:
    call = _libc().ptrace
    if call(request, child, address, data) == -1:
        raise OSError(ctypes.get_errno(), f"ptrace({request}): {os.strerror(ctypes.get_errno())}")


@lru_cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    library.ptrace.restype = ctypes.c_long
    return library


@lru_cache
def can_trace() -> bool:
    """Whether children can be traced here; some containers forbid it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        return traced(lambda: os.close(os.open(os.devnull, os.O_RDONLY))).calls == ["openat"]
    except OSError:
        return False
