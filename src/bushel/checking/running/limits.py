"""What the kernel forbids the child: writing outside its folder, and the network."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

__all__ = ["forbid_network", "forbid_writing_outside"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
# Landlock's rights of ABI 1 that change something: write, remove, make (not read and not execute).
_WRITE_RIGHTS = (1 << 1) | sum(1 << bit for bit in range(4, 13))
_FILE_WRITE = 1 << 1
_PATH_BENEATH = 1


def forbid_writing_outside(folders: Iterable[str], files: Iterable[str]) -> bool:
    """Let this process write below these folders alone; False where the kernel cannot do that."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    rights = ctypes.create_string_buffer(struct.pack("Q", _WRITE_RIGHTS))
    ruleset = libc.syscall(_CREATE_RULESET, rights, 8, 0)
    if ruleset < 0:
        return False
    try:
        for path, allowed in [*((f, _WRITE_RIGHTS) for f in folders), *((f, _FILE_WRITE) for f in files)]:
            if not os.path.exists(path):
                continue
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, opened))
            libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
            os.close(opened)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def forbid_network() -> bool:
    """Move this process to a network of its own, with nothing in it; False where that is not allowed."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            pass
    return True
