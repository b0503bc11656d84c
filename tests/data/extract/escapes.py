"""The attempts of a compromised parser to escape from the sandbox, for tests/faults/test_sandbox.py.

The document is JSON with the targets. Each attempt either succeeds or raises OSError; all of them run in
one process, so those that disturb the others (a new root, another user namespace) come last.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import socket
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from knowledge.extract.base import Extraction, Facts, PageText, Source

INTEL = platform.machine() == "x86_64"
NUMBERS = {  # on x86-64, and on ARM64
    "add_key": (248, 217), "bpf": (321, 280), "capset": (126, 91), "clone": (56, 220), "connect": (42, 203),
    "execve": (59, 221), "execveat": (322, 281), "fanotify_init": (300, 262), "fchmodat2": (452, 452),
    "fsopen": (430, 430), "get_robust_list": (274, 100), "inotify_init1": (294, 26), "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "keyctl": (250, 219), "landlock_create_ruleset": (444, 444),
    "listen": (50, 201), "memfd_create": (319, 279), "mlock": (149, 228), "mount": (165, 40),
    "move_pages": (279, 239), "mq_open": (240, 180), "mq_unlink": (241, 181), "msgget": (68, 186),
    "name_to_handle_at": (303, 264), "open": (2, -1), "open_tree": (428, 428), "openat2": (437, 437),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "prctl": (157, 167), "prlimit64": (302, 261), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "seccomp": (317, 277), "semget": (64, 190), "sendto": (44, 206),
    "setitimer": (38, 103), "shmget": (29, 194), "signalfd4": (289, 74), "socket": (41, 198), "socketpair": (53, 199),
    "splice": (275, 76), "syslog": (103, 116), "tgkill": (234, 131), "timer_create": (222, 107),
    "timerfd_create": (283, 85), "tkill": (200, 130), "unshare": (272, 97), "userfaultfd": (323, 282),
}  # fmt: skip
AT_FDCWD, SIGCHLD = -100, 17


class Needs(Enum):
    """What an attempt needs to succeed without a sandbox."""

    NOTHING = ""
    ROOT = "root"
    LUCK = "a kernel or container that permits it"


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of the attempts, made by the test."""

    folder: str
    """With `secret.txt` (another document), `link`, `doomed` (a file), `empty` (a folder), `stream` and `datagram`."""
    document: str
    victim: int
    """A process of the same user, such as the server."""
    address: int
    """The address of a secret in the memory of the victim."""
    port: int
    key: int
    """Key of System V IPC objects."""

    @property
    def secret(self) -> str:
        return f"{self.folder}/secret.txt"


Deed = Callable[[Targets], object]
ATTEMPTS: dict[str, tuple[Deed, Needs]] = {}


def attempt(name: str, needs: Needs = Needs.NOTHING) -> Callable[[Deed], Deed]:
    def keep(deed: Deed) -> Deed:
        ATTEMPTS[name] = (deed, needs)
        return deed

    return keep


def add(name: str, deed: Deed, needs: Needs = Needs.NOTHING) -> None:
    ATTEMPTS[name] = (deed, needs)


def call(name: str, *arguments: object) -> int:
    """Make a system call by its number."""
    number = NUMBERS[name][0 if INTEL else 1]
    return call_number(number, *arguments)


def call_number(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    answer: int = libc.syscall(ctypes.c_long(number), *wide)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def extract(source: Source) -> Extraction:
    targets = Targets(**json.loads(source.read()))
    state = {
        "environment": dict(os.environ),
        "started with": _initial_environment(),
        "descriptors": _count_descriptors(),
    }
    outcome = {name: _try(deed, targets) for name, (deed, _) in ATTEMPTS.items()}
    return Extraction(Facts("txt"), iter([PageText(json.dumps(outcome), 1), PageText(json.dumps(state), 2)]))


def _try(deed: Deed, targets: Targets) -> str:
    try:
        deed(targets)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except Exception as error:  # a bug in the attempt
        return f"{type(error).__name__}: {error}"
    return "succeeded"


def _initial_environment() -> str | None:
    """Return the initial environment of this process, if /proc shows it."""
    try:
        return Path("/proc/self/environ").read_text().strip("\0")
    except OSError:
        return None


def _count_descriptors() -> int:
    count = 0
    for descriptor in range(4096):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            count += 1
    return count


# Reading other files


def read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 64)
    finally:
        os.close(descriptor)


add("read another document", lambda to: read(to.secret))
add("read another document through a link", lambda to: read(f"{to.folder}/link"))
add("read another document by its folder", lambda to: os.open("secret.txt", os.O_RDONLY, dir_fd=os.open(to.folder, 0)))
add("read the accounts of the machine", lambda _: read("/etc/passwd"))
add("read the passwords of the machine", lambda _: read("/etc/shadow"), Needs.ROOT)
add("read the name of the machine", lambda _: read("/etc/hosts"))
add("read the environment of the server", lambda to: read(f"/proc/{to.victim}/environ"), Needs.LUCK)
add("read the command line of the server", lambda to: read(f"/proc/{to.victim}/cmdline"))
add("read the memory map of the server", lambda to: read(f"/proc/{to.victim}/maps"), Needs.LUCK)
add("open the memory of the server", lambda to: os.open(f"/proc/{to.victim}/mem", os.O_RDONLY), Needs.LUCK)
add("list the descriptors of the server", lambda to: os.listdir(f"/proc/{to.victim}/fd"), Needs.LUCK)  # noqa: PTH208
add("read its own environment", lambda _: read("/proc/self/environ"), Needs.LUCK)
add("read its own memory map", lambda _: read("/proc/self/maps"), Needs.LUCK)
add("read the mounts", lambda _: read("/proc/self/mountinfo"))
add("list the folder of its document", lambda to: os.listdir(to.folder))  # noqa: PTH208
add("list the root folder", lambda _: os.listdir("/"))  # noqa: PTH208
add("list all processes", lambda _: os.listdir("/proc"))  # noqa: PTH208
add("list temporary files", lambda _: os.listdir("/tmp"))  # noqa: PTH208
add("see where a link leads", lambda to: Path(to.folder, "link").readlink())
add("see where the server works", lambda to: Path(f"/proc/{to.victim}/cwd").readlink(), Needs.LUCK)
add("hold a file without opening it", lambda to: os.open(to.secret, os.O_PATH))
add("copy another document in the kernel", lambda to: os.sendfile(_pipe(), os.open(to.secret, os.O_RDONLY), 0, 16))


@attempt("open by a structure that a filter cannot see")
def _(to: Targets) -> object:
    return call("openat2", AT_FDCWD, to.secret.encode(), struct.pack("QQQ", os.O_RDONLY, 0, 0), 24)


@attempt("open by the oldest call", Needs.NOTHING if INTEL else Needs.LUCK)
def _(to: Targets) -> object:
    return call("open", to.secret.encode(), os.O_RDONLY, 0)


@attempt("take a handle of a file", Needs.LUCK)
def _(to: Targets) -> object:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    return call("name_to_handle_at", AT_FDCWD, to.secret.encode(), handle, ctypes.byref(ctypes.c_int()), 0)


def _pipe() -> int:
    return os.pipe()[1]


# Changing files


def write(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


add("create a file", lambda to: write(f"{to.folder}/new", os.O_WRONLY | os.O_CREAT))
add("create a file that is read", lambda to: write(f"{to.folder}/new2", os.O_RDONLY | os.O_CREAT))
add("create a nameless file", lambda to: write(to.folder, os.O_RDWR | os.O_TMPFILE), Needs.LUCK)
add("open its document for writing", lambda to: write(to.document, os.O_WRONLY))
add("open its document for reading and writing", lambda to: write(to.document, os.O_RDWR))
add("open another document for appending", lambda to: write(to.secret, os.O_WRONLY | os.O_APPEND))
add("cut another document", lambda to: write(f"{to.folder}/doomed", os.O_RDONLY | os.O_TRUNC))
add("cut a document by name", lambda to: os.truncate(f"{to.folder}/doomed", 0))
add("make a folder", lambda to: Path(to.folder, "made").mkdir())
add("remove a folder", lambda to: Path(to.folder, "empty").rmdir())
add("rename a document", lambda to: Path(to.folder, "doomed").rename(f"{to.folder}/doomed2"))
add("remove a document", lambda to: Path(to.folder, "doomed2").unlink())
add("link to another document", lambda to: os.link(to.secret, f"{to.folder}/hard"))
add("link to its own document", lambda to: os.link(to.document, f"{to.folder}/hard2"))
add("make a symbolic link", lambda to: Path(to.folder, "soft").symlink_to(to.secret))
add("make a named pipe", lambda to: os.mkfifo(f"{to.folder}/fifo"))
add("make a device", lambda to: os.mknod(f"{to.folder}/device", 0o020600, os.makedev(1, 3)), Needs.ROOT)
add("change the mode of a file", lambda to: os.chmod(to.secret, 0o640))  # noqa: PTH101
add("change the mode of its document", lambda to: os.fchmod(os.open(to.document, os.O_RDONLY), 0o640))
add("change a mode by the newest call", lambda to: call("fchmodat2", -100, to.secret.encode(), 0o640, 0), Needs.LUCK)
add("change the owner of a file", lambda to: os.chown(to.secret, os.getuid(), os.getgid()))
add("change the owner of its document", lambda to: os.fchown(os.open(to.document, 0), os.getuid(), os.getgid()))
add("change the owner of a link", lambda to: os.lchown(f"{to.folder}/link", os.getuid(), os.getgid()))
add("change the times of a file", lambda to: os.utime(to.secret, (1, 1)))
add("change the times of its document", lambda to: os.utime(os.open(to.document, os.O_RDONLY), (1, 1)))
add("set an attribute of a file", lambda to: os.setxattr(to.secret, "user.test", b"1"), Needs.LUCK)
add("set an attribute of its document", lambda to: os.setxattr(os.open(to.document, 0), "user.a", b"1"), Needs.LUCK)
add("list the attributes of a file", lambda to: os.listxattr(to.secret), Needs.LUCK)
add("lock its document", lambda to: fcntl.flock(os.open(to.document, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))
add("lock a part of its document", lambda to: fcntl.lockf(os.open(to.document, 0), fcntl.LOCK_SH | fcntl.LOCK_NB))
add("take a lease on its document", lambda to: fcntl.fcntl(os.open(to.document, 0), 1024, 0), Needs.LUCK)
add("send signals by a descriptor", lambda to: fcntl.fcntl(_pipe(), fcntl.F_SETOWN, to.victim))
add("enlarge a pipe", lambda _: fcntl.fcntl(_pipe(), 1031, 1 << 20))
add("watch files", lambda _: call("inotify_init1", 0))
add("watch all files", lambda _: call("fanotify_init", 0, 0), Needs.LUCK)
add("make the disk write", lambda to: os.fsync(os.open(to.document, os.O_RDONLY)))
add("work elsewhere", lambda to: os.chdir(to.folder))


# Reaching other processes


@attempt("start a process")
def _(_: Targets) -> object:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attempt("start a process by its number")
def _(_: Targets) -> object:
    pid = call("clone", SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attempt("start a program")
def _(_: Targets) -> object:
    return os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


@attempt("become another program")
def _(_: Targets) -> object:
    return _reach("execve", b"/no/such/program", None, None)


@attempt("become another program by a descriptor")
def _(_: Targets) -> object:
    return _reach("execveat", AT_FDCWD, b"/no/such/program", None, None, 0)


def _reach(name: str, *arguments: object) -> object:
    """Make a call that would replace this process; that the program is not found shows that the call is allowed."""
    try:
        return call(name, *arguments)
    except FileNotFoundError:
        return None


@attempt("trace the server", Needs.LUCK)
def _(to: Targets) -> object:
    return call("ptrace", 0x4206, to.victim, 0, 0)  # PTRACE_SEIZE, which does not stop it


def _memory_of(to: Targets, buffer: object) -> tuple[bytes, bytes]:
    here = struct.pack("PN", ctypes.addressof(buffer), 6)  # type: ignore[arg-type]
    return here, struct.pack("PN", to.address, 6)


@attempt("read the memory of the server", Needs.LUCK)
def _(to: Targets) -> object:
    here, there = _memory_of(to, buffer := ctypes.create_string_buffer(6))
    call("process_vm_readv", to.victim, here, 1, there, 1, 0)
    return buffer.raw


@attempt("write the memory of the server", Needs.LUCK)
def _(to: Targets) -> object:
    here, there = _memory_of(to, buffer := ctypes.create_string_buffer(b"secret", 6))
    return call("process_vm_writev", to.victim, here, 1, there, 1, 0), buffer


@attempt("take a descriptor of the server", Needs.LUCK)
def _(to: Targets) -> object:
    return call("pidfd_getfd", call("pidfd_open", to.victim, 0), 0, 0)


@attempt("signal the server by a descriptor")
def _(to: Targets) -> object:
    return call("pidfd_send_signal", call("pidfd_open", to.victim, 0), 0, None, 0)


def _signal_with_data(name: str, *to_whom: int) -> object:
    details = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1), 128)
    return call(name, *to_whom, 0, details)


class Limit(ctypes.Structure):
    _fields_ = (("soft", ctypes.c_ulong), ("hard", ctypes.c_ulong))


def _limit(pid: int, what: int, new: Limit | None, old: Limit | None = None) -> object:
    given = None if new is None else ctypes.byref(new)
    return call("prlimit64", pid, what, given, None if old is None else ctypes.byref(old))


@attempt("set the limits of the server")
def _(to: Targets) -> object:
    _limit(to.victim, resource.RLIMIT_CORE, None, old := Limit())
    return _limit(to.victim, resource.RLIMIT_CORE, Limit(0, old.hard))


@attempt("raise its own memory limit", Needs.LUCK)
def _(_: Targets) -> object:
    return _limit(0, resource.RLIMIT_AS, Limit(1 << 62, 1 << 62))


@attempt("set its own limits")
def _(_: Targets) -> object:
    return _limit(0, resource.RLIMIT_STACK, Limit(*resource.getrlimit(resource.RLIMIT_STACK)))


add("find the server by a descriptor", lambda to: call("pidfd_open", to.victim, 0))
add("signal the server", lambda to: os.kill(to.victim, 0))
add("signal the parent", lambda _: os.kill(os.getppid(), 0))
add("signal the process group", lambda _: os.kill(0, 0))
add("signal everybody", lambda _: os.kill(-1, 0), Needs.LUCK)
add("signal a thread of the server", lambda to: call("tgkill", to.victim, to.victim, 0))
add("signal a thread by its number alone", lambda to: call("tkill", to.victim, 0))
add("send a signal with data", lambda to: _signal_with_data("rt_sigqueueinfo", to.victim))
add("send a thread a signal with data", lambda to: _signal_with_data("rt_tgsigqueueinfo", to.victim, to.victim))
add("read the limits of the server", lambda to: _limit(to.victim, resource.RLIMIT_NOFILE, None, Limit()))
add("slow the server down", lambda to: os.setpriority(os.PRIO_PROCESS, to.victim, 5))
add("move the server to other processors", lambda to: os.sched_setaffinity(to.victim, os.sched_getaffinity(to.victim)))
add("change the scheduling of the server", lambda to: os.sched_setscheduler(to.victim, 0, os.sched_param(0)))
add("slow the disk of the server down", lambda to: call("ioprio_set", 1, to.victim, 2 << 13 | 7))
add("compare itself with the server", lambda to: call("kcmp", os.getpid(), to.victim, 1, 0, 0), Needs.LUCK)
add("see the memory pages of the server", lambda to: call("move_pages", to.victim, 0, 0, 0, 0, 0), Needs.LUCK)
add("change its priority", lambda _: os.nice(1))
add("outlive its parent", lambda _: call("prctl", 1, 0, 0, 0, 0))
add("be inspected", lambda _: call("prctl", 4, 1, 0, 0, 0))
add("adopt processes", lambda _: call("prctl", 36, 1, 0, 0, 0))
add("read its capabilities", lambda _: call("prctl", 23, 0, 0, 0, 0))
add("leave its process group", lambda _: os.setpgid(0, os.getpgid(os.getppid())), Needs.LUCK)
add("behave as on another system", lambda _: call("personality", 0))


# The network


def _address(path: str) -> bytes:
    return struct.pack("H", socket.AF_UNIX) + path.encode() + b"\0"


@attempt("connect to a port")
def _(to: Targets) -> object:
    there = struct.pack("!2s H 4s 8x", struct.pack("=H", socket.AF_INET), to.port, bytes((127, 0, 0, 1)))
    return call("connect", call("socket", socket.AF_INET, socket.SOCK_STREAM, 0), there, len(there))


@attempt("send a datagram")
def _(to: Targets) -> object:
    there = struct.pack("!2s H 4s 8x", struct.pack("=H", socket.AF_INET), to.port, bytes((127, 0, 0, 1)))
    sender = call("socket", socket.AF_INET, socket.SOCK_DGRAM, 0)
    return call("sendto", sender, b"out", 3, 0, there, len(there))


@attempt("listen on a port")
def _(_: Targets) -> object:
    listener = call("socket", socket.AF_INET, socket.SOCK_STREAM, 0)
    return call("listen", listener, 1)


@attempt("connect to a socket of the file system")
def _(to: Targets) -> object:
    there = _address(f"{to.folder}/stream")
    return call("connect", call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0), there, len(there))


@attempt("send a message from a pair of sockets")
def _(to: Targets) -> object:
    pair = (ctypes.c_int * 2)()
    call("socketpair", socket.AF_UNIX, socket.SOCK_DGRAM, 0, ctypes.byref(pair))
    there = _address(f"{to.folder}/datagram")
    return call("sendto", pair[0], b"out", 3, 0, there, len(there))


add("open a socket for version 6", lambda _: call("socket", socket.AF_INET6, socket.SOCK_STREAM, 0), Needs.LUCK)
add("open a socket to the kernel", lambda _: call("socket", 16, socket.SOCK_RAW, 0))
add("open a socket for every packet", lambda _: call("socket", 17, socket.SOCK_RAW, 0x0300), Needs.ROOT)
add("open a socket for raw packets", lambda _: call("socket", socket.AF_INET, socket.SOCK_RAW, 1), Needs.ROOT)
add("open a socket to a virtual machine", lambda _: call("socket", 40, socket.SOCK_STREAM, 0), Needs.LUCK)
add("open a socket for cryptography", lambda _: call("socket", 38, socket.SOCK_SEQPACKET, 0), Needs.LUCK)


# Persistent kernel objects, and calls with many past vulnerabilities

add("leave shared memory behind", lambda to: call("shmget", to.key, 4096, 0o1600))
add("leave a message queue behind", lambda to: call("msgget", to.key, 0o1600))
add("leave semaphores behind", lambda to: call("semget", to.key, 1, 0o1600))
add("leave a POSIX queue behind", lambda to: _queue(f"knowledge-test-{to.key}".encode()), Needs.LUCK)
add("leave a key behind", lambda to: call("add_key", b"user", f"k{to.key}".encode(), b"1", 1, -2), Needs.LUCK)
add("see keys", lambda _: call("keyctl", 0, -3, 1), Needs.LUCK)
add("make a file in memory", lambda _: call("memfd_create", b"x", 0))
add("lock memory", lambda _: mmap.mmap(-1, 4096) and call("mlock", id(b"x") & ~4095, 4096), Needs.LUCK)
add("make a ring of requests", lambda _: call("io_uring_setup", 1, ctypes.create_string_buffer(120)), Needs.LUCK)
add("handle page faults", lambda _: call("userfaultfd", 1), Needs.LUCK)
add("load a program into the kernel", lambda _: call("bpf", 0, struct.pack("IIII", 2, 4, 8, 1), 16), Needs.LUCK)
add("measure the machine", lambda _: call("perf_event_open", _perf(), 0, -1, -1, 0), Needs.LUCK)
add("read the log of the kernel", lambda _: call("syslog", 10, 0, 0), Needs.LUCK)
add("set an alarm", lambda _: call("setitimer", 0, struct.pack("4q", 0, 0, 0, 0), None))
add("make a timer", lambda _: call("timer_create", 0, None, ctypes.byref(ctypes.c_int())))
add("make a timer with a descriptor", lambda _: call("timerfd_create", 0, 0))
add("read signals from a descriptor", lambda _: call("signalfd4", -1, struct.pack("Q", 0), 8, 0))
add("move data within the kernel", lambda to: _splice(os.open(to.document, os.O_RDONLY)))
add("add rules of its own", lambda _: call("landlock_create_ruleset", struct.pack("Q", 1), 8, 0), Needs.LUCK)
add("add a filter of its own", lambda _: call("seccomp", 2, 0, struct.pack("I", 0)))
add("ask a device", lambda to: fcntl.ioctl(os.open(to.document, os.O_RDONLY), 0x80086601, bytes(8)), Needs.LUCK)
add("type at a terminal", lambda _: fcntl.ioctl(0, termios.TIOCSTI, b"x"), Needs.LUCK)
add("be a 32-bit program", lambda _: call_number(0x40000000 | 39), Needs.LUCK)


def _queue(name: bytes) -> object:
    return call("mq_open", name, os.O_RDWR | os.O_CREAT, 0o600, None), call("mq_unlink", name)


def _perf() -> object:
    return ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112)


def _splice(document: int) -> object:
    return call("splice", document, ctypes.byref(ctypes.c_long(0)), _pipe(), None, 1, 0)


@attempt("call the kernel as a program of another processor", Needs.LUCK)
def _(_: Targets) -> object:
    """Call getpid through int 0x80, which uses the numbers of the i386 ABI."""
    if not INTEL:
        raise PermissionError(errno.EPERM, "there is no other processor")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


# Attempts that disturb the others


def _mount(to: Targets) -> object:
    """In a new mount namespace, which ends with this process."""
    call("unshare", 0x00020000)
    call("mount", b"none", b"/", None, 0x44000, None)  # changes stay in this namespace
    return call("mount", b"none", to.folder.encode(), b"tmpfs", 0, None)


add("change its own file mask", lambda _: os.umask(0o022))
add("become another user", lambda _: os.setuid(os.getuid()))
add("join other groups", lambda _: os.setgroups([]), Needs.ROOT)
add("make a file system", lambda _: call("fsopen", b"tmpfs", 0), Needs.LUCK)
add("take a tree of files", lambda _: call("open_tree", AT_FDCWD, b"/", 1), Needs.LUCK)
add("have a host name of its own", lambda _: call("unshare", 0x04000000), Needs.LUCK)
add("mount a file system", _mount, Needs.LUCK)
add("have users of its own", lambda _: call("unshare", 0x10000000), Needs.LUCK)
add("have another root folder", lambda to: os.chroot(to.folder), Needs.LUCK)
