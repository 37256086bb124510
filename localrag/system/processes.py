"""The one place that starts other programs: isolated, away from the current folder, ended with us.

A program started here gets an absolute path, a working directory that nobody else writes to, a
session of its own and, of our environment, what is named for it. Python is started isolated
(`-I`): it imports what is installed and localrag as it was imported here, and nothing from the
folder that a command happens to run in, nor from where PYTHONPATH points.
"""

from __future__ import annotations

import os
import shutil
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO

Process = subprocess.Popen[bytes]
Ended = subprocess.CompletedProcess[bytes]
PIPE, OUTPUT, NOTHING = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
TimedOutError, FailedError = subprocess.TimeoutExpired, subprocess.CalledProcessError
PRIVATE, OURS = 0o077, -1
"""For what a program makes: a umask that leaves others nothing, or the one that we have."""

# Names of variables; "*" at the end stands for any ending.
PLAIN = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ"),
    *("TMPDIR", "TEMP", "TMP", "XDG_*", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("DYLD_FALLBACK_LIBRARY_PATH", "NIX_LD*"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "USERNAME"),
    *("APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES*", "NUMBER_OF_PROCESSORS"),
    *("PROCESSOR_*", "HOMEDRIVE", "HOMEPATH", "ALLUSERSPROFILE", "COMMONPROGRAM*"),
)
"""What any program may need: where things lie, and the user's language."""

LOCALRAG = (
    *PLAIN,
    *("LOCALRAG_*", "OMP_*", "CUDA_*", "GGML_*", "HIP_*", "ROCR_*", "MKL_*", "OPENBLAS_*"),
)
"""For localrag itself: its settings, and those of the libraries that compute."""

PIP = (
    *PLAIN,
    *("PIP_*", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NETRC", "SSL_CERT_FILE"),
    *("SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SOURCE_DATE_EPOCH"),
    # keyring, and the stores of credentials that its back ends ask
    *("KEYRING_*", "PYTHON_KEYRING_BACKEND", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "AWS_*"),
    *(
        "KRB5*",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUDSDK_*",
        "ARTIFACTS_KEYRING_*",
        "VSS_NUGET_*",
    ),
)
"""For pip: its configuration, proxies, certificates and credentials."""

COMPILING = (
    *PIP,
    *("CC", "CXX", "AR", "AS", "LD", "NM", "RANLIB", "STRIP", "CFLAGS", "CXXFLAGS", "CPPFLAGS"),
    *("LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "ARCHFLAGS"),
    *("CMAKE_*", "SKBUILD_*", "NINJA_*", "MAKEFLAGS", "CCACHE_*", "PKG_CONFIG*", "FORCE_CMAKE"),
    *("CUDA*", "NVCC_*", "HIP*", "ROCM_*", "VULKAN_SDK", "ONEAPI_*", "OPENBLAS*", "BLAS_*"),
    *("SDKROOT", "DEVELOPER_DIR", "MACOSX_DEPLOYMENT_TARGET", "CONDA_*"),
    *("INCLUDE", "LIB", "LIBPATH", "VC*", "VS*", "VISUALSTUDIOVERSION", "WINDOWSSDK*", "UCRT*"),
)
"""For pip that compiles: in addition the compilers, and what they are told."""

SSH = (*PLAIN, "SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TERM", "GPG_TTY")
"""For ssh-keygen: the agent, and how it asks for a passphrase."""

DESKTOP = (
    *SSH,
    *("BROWSER", "DESKTOP_*", "DBUS_SESSION_BUS_ADDRESS", "SESSION_MANAGER", "GNOME_*", "KDE_*"),
    *("GTK_*", "QT_*", "GDK_*", "MOZ_*", "PULSE_*", "XMODIFIERS", "INPUT_METHOD", "WSL*"),
)
"""For the program that a desktop opens a file with, its input methods among it."""

_FOLDERS = {"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"}
_PATHS = {
    *("TMPDIR", "TEMP", "TMP", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("CURL_CA_BUNDLE", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CACHE_DIR", "PIP_CONFIG_FILE"),
    *("PIP_FIND_LINKS", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "LOCALRAG_CONFIG"),
    *("LOCALRAG_LIBRARY", "LOCALRAG_MODELS", "LOCALRAG_KEYS"),
}
_LISTS = {"PIP_FIND_LINKS", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"}

NEUTRAL = os.sep if sys.platform != "win32" else os.path.dirname(sys.executable)  # noqa: PTH120
"""Where programs run. Windows also looks there for libraries: Python's folder it trusts anyway."""

# The package, found before any chdir.
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120

# localrag is taken from its very folder, whatever else of that name is installed.
_BOOT = """\
import importlib.util, os, sys
here, packages = os.fsdecode({here!a}), os.fsdecode({packages!a})
spec = importlib.util.spec_from_file_location("localrag", os.path.join(here, "__init__.py"))
sys.modules["localrag"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["localrag"])
from localrag.system import processes
processes._find_packages(packages)
del here, packages, spec, processes
"""

_SECONDS_TO_END = 5.0
_POLL = 0.2


_commands: list[list[str]] = []


@contextmanager
def command_line() -> Iterator[None]:
    """While the command runs that this process was started for, or a test calls it as one."""
    _commands.append(sys.argv[1:])
    try:
        yield
    finally:
        _commands.pop()


def begin_again(variables: Mapping[str, str]) -> None:
    """Start this very command anew, in this process, with more variables in its environment.

    Does nothing where Python was started for something else, and calls a command as a function.
    """
    arguments = _commands[-1] if _commands else []
    if arguments and sys.orig_argv[-len(arguments) :] == arguments:
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **variables})  # noqa: S606


def python(program: str, *arguments: str, utf8: bool | None = None) -> list[str]:
    """The command that runs a text as a program of localrag, in an isolated Python.

    `utf8` sets Python's UTF-8 mode; None leaves it as it is here, so that paths mean the same.
    """
    # The user's own folder of packages, if this process imports from there.
    users = site.getusersitepackages()
    users = users if users in sys.path else ""
    boot = _BOOT.format(here=os.fsencode(_HERE), packages=os.fsencode(users))
    mode = sys.flags.utf8_mode if utf8 is None else utf8
    return [sys.executable, "-I", "-X", f"utf8={mode:d}", "-c", boot + program, *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs an installed module, such as pip, as a program that speaks UTF-8."""
    program = f"from localrag.system import processes; processes._run_module({name!r})"
    return python(program, *arguments, utf8=True)


def find(name: str) -> str | None:
    """The absolute path of an installed program; relative entries of PATH do not count."""
    path = search_path()
    # Windows would look into the current folder first, whatever the path.
    file = name if sys.platform != "win32" else f"{name}.exe"
    places = (os.path.join(folder, file) for folder in path.split(os.pathsep) if folder)  # noqa: PTH118
    return next((program for place in places if (program := shutil.which(place))), None)


def search_path() -> str:
    """PATH without its relative entries, of which "" is one."""
    return _absolute_folders(os.environ.get("PATH", os.defpath))


def start(
    command: list[str],
    keep: Iterable[str],
    *,
    variables: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = NOTHING,
    stdout: int | IO[bytes] = NOTHING,
    stderr: int | IO[bytes] = NOTHING,
    own_session: bool = True,
    umask: int = PRIVATE,
) -> Process:
    """Start a program whose path is absolute; its owner ends it with `end`.

    `keep` names the variables that it gets of our environment (such as `PIP`), `variables` sets
    others. Paths among the arguments must be absolute. Raises OSError where it cannot start.
    """
    if not os.path.isabs(command[0]):  # noqa: PTH117
        raise ValueError(f"the path of a program must be absolute: {command[0]}")
    return subprocess.Popen(  # noqa: S603 - no shell, and the path is absolute
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=NEUTRAL,
        env=environment(keep) | dict(variables or {}),
        start_new_session=own_session and sys.platform != "win32",
        umask=umask if sys.platform != "win32" else OURS,
    )


def run(
    command: list[str],
    keep: Iterable[str],
    *,
    variables: Mapping[str, str] | None = None,
    given: bytes | None = None,
    stdout: int | IO[bytes] = PIPE,
    stderr: int | IO[bytes] = NOTHING,
    seconds: float | None = None,
    watch: Callable[[int], None] | None = None,
    terminal: bool = False,
    umask: int = PRIVATE,
) -> Ended:
    """Run a program to its end, with `given` as its input; arguments as for `start`.

    `terminal` leaves it our input and our session, so that it can ask for a passphrase; what it
    makes is ours alone, unless `umask` is `OURS`. `watch` is called with its number now and then.
    Raises `TimedOutError` after so many seconds, and what `watch` raises. Whatever ends us ends it.
    """
    stdin = None if terminal else NOTHING if given is None else PIPE
    process = start(
        command,
        keep,
        variables=variables,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        own_session=not terminal,
        umask=umask,
    )
    try:
        output, errors = _communicate(process, given, seconds, watch)
    except BaseException:
        end(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def show(path: str, variables: Mapping[str, str]) -> bool:
    """Open a file as a click on it would, in a program that outlives us; False where none can."""
    if sys.platform == "win32":
        os.startfile(path)  # noqa: S606 - it is told which program by Windows alone
        return True
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    opener = "/usr/bin/open" if sys.platform == "darwin" else screen and find("xdg-open")
    if not opener:
        return False
    process = start([opener, path], DESKTOP, variables=variables, umask=OURS)
    threading.Thread(target=process.wait, daemon=True).start()  # it may be the browser itself
    return True


def end(process: Process, *, patience: float = _SECONDS_TO_END) -> None:
    """End a program and all that it started: asked first, by force after `patience` seconds."""
    if process.poll() is None:
        for force in (False, True) if patience else (True,):
            _signal(process, force=force)
            try:
                process.wait(None if force else patience)
            except subprocess.TimeoutExpired:
                continue
    if sys.platform != "win32":
        _signal(process, force=True)  # whoever outlived the first of them
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # what was still to be sent to a program that is gone
                pipe.close()


def environment(keep: Iterable[str]) -> dict[str, str]:
    """The variables of ours that `keep` names, relative paths in them made absolute."""
    patterns = [name.upper() for name in keep]
    variables = {}
    for name, value in os.environ.items():
        if not any(_matches(name.upper(), pattern) for pattern in patterns):
            continue
        if name in _FOLDERS:
            value = _absolute_folders(value)
        elif name in _PATHS:
            words = value.split() if name in _LISTS else [value]
            value = " ".join(map(_absolute, words))
        variables[name] = value
    return variables


# In the other process


def end_with_parent() -> None:
    """End this process, and all of its session, soon after the one that started it is gone."""
    if sys.platform != "win32":
        threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        with suppress(OSError):
            os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _find_packages(users: str) -> None:
    """Let the user's own packages be found where they were, and localrag's neighbours last."""
    if users:
        known = list(sys.path)
        site.addsitedir(users)
        new = [path for path in sys.path if path not in known]
        first = next((known.index(path) for path in site.getsitepackages() if path in known), None)
        sys.path[:] = [*known[:first], *new, *known[first:]] if first is not None else sys.path
        site.USER_SITE = users  # for programs that this one starts
    root = os.path.dirname(_HERE)  # noqa: PTH120
    if root not in sys.path:
        sys.path.append(root)


def _run_module(name: str) -> None:
    import runpy

    end_with_parent()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


# Details


def _communicate(
    process: Process,
    data: bytes | None,
    seconds: float | None,
    watch: Callable[[int], None] | None,
) -> tuple[bytes, bytes]:
    if watch is None:
        return process.communicate(data, seconds)
    end = time.monotonic() + (seconds or float("inf"))
    while True:
        try:
            return process.communicate(data, _POLL)
        except subprocess.TimeoutExpired:
            data = None  # it is on its way
            if time.monotonic() > end:
                raise
        watch(process.pid)


def _signal(process: Process, *, force: bool) -> None:
    if sys.platform != "win32":
        number = signal.SIGKILL if force else signal.SIGTERM
        # Its group has its number where it was given a session of its own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if process.poll() is None:
            process.send_signal(number)
        return
    system = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32")  # noqa: PTH118
    command = [os.path.join(system, "taskkill.exe"), "/F", "/T", "/PID", str(process.pid)]  # noqa: PTH118
    with suppress(OSError):
        subprocess.run(command, stdout=NOTHING, stderr=NOTHING, check=False)  # noqa: S603
    process.kill()


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _absolute_folders(paths: str) -> str:
    folders = paths.split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if os.path.isabs(folder))  # noqa: PTH117


def _absolute(path: str) -> str:
    inside = "://" not in path and os.path.exists(path)  # noqa: PTH110
    return os.path.abspath(path) if inside else path  # noqa: PTH100
