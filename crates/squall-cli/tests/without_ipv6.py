#!/usr/bin/env python3
"""without_ipv6.py PROGRAM...: runs a program to which the kernel gives no sockets of IPv6, as with ipv6.disable=1."""

import ctypes
import os
import platform
import struct
import sys

SOCKET = {"x86_64": 41, "aarch64": 198}.get(platform.machine())
AF_INET6, EAFNOSUPPORT = 10, 97
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ERRNO, ALLOW = 0x50000, 0x7FFF0000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


if SOCKET is None:
    print("skipped: this kind of processor has other numbers of system calls")
    sys.exit(77)
# Of struct seccomp_data: the number of the call, and its first argument.
CODE = [
    (LOAD, 0, 0, 0),
    (JUMP_IF_EQUAL, 0, 3, SOCKET),
    (LOAD, 0, 0, 16),
    (JUMP_IF_EQUAL, 0, 1, AF_INET6),
    (RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
    (RETURN, 0, 0, ALLOW),
]
program = Program(len(CODE), b"".join(struct.pack("HBBI", *one) for one in CODE))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
    print("skipped: no filter of system calls is permitted here")
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
