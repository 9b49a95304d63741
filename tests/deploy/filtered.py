"""Runs a program as systemd does under SystemCallFilter= of a unit.

    filtered.py UNIT PROGRAM [ARGUMENT]...

A call that the unit does not list ends the process, as it does there. Needs
systemd-analyze, which knows what groups of calls are.
"""

import ctypes
import os
import re
import subprocess
import sys

_ALLOW, _KILL, _NO_SUCH_CALL = 0x7fff0000, 0x80000000, 0x00050000 | 38
_PR_SET_NO_NEW_PRIVS = 38


def calls_of(name):
    """The calls that a word of SystemCallFilter= stands for."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.run(
        ["systemd-analyze", "syscall-filter", name],
        capture_output=True, text=True, check=True).stdout
    words = [line.strip() for line in text.splitlines()[1:]]
    return set().union(*(calls_of(word) for word in words
                         if word and not word.startswith("#")))


def allowed(unit):
    """The calls that a unit's lines allow."""
    words = " ".join(re.findall(r"^SystemCallFilter=(.*)$", unit, re.M)).split()
    return set().union(*map(calls_of, ["@default", *words]))


def restrict(unit):
    """This process, from now on."""
    names = allowed(unit)
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    rules = library.seccomp_init(_NO_SUCH_CALL)
    for name in calls_of("@known") | names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            library.seccomp_rule_add(
                rules, _ALLOW if name in names else _KILL, number, 0)
    assert ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert library.seccomp_load(rules) == 0


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        restrict(file.read())
    os.execv(sys.argv[2], sys.argv[2:])
