"""A PostgreSQL server of the test's own, on a free port of this machine."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PASSWORD", "Server", "find_programs", "serving_postgres"]

PASSWORD = "s3cret-of-the-test"
_PROGRAMS = ("initdb", "pg_ctl", "postgres")


@dataclass(frozen=True)
class Server:
    """A server that runs, and the user `owner` of it, who has a password.

    Parameters
    ----------
    port
        On 127.0.0.1.
    """

    port: int

    @property
    def address(self) -> str:
        """Return its database as an address without a password."""
        return f"postgresql://owner@127.0.0.1:{self.port}/postgres"


def find_programs() -> Path | None:
    """Return the folder of the server's programs, if they are installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    if found is not None:
        folders.append(Path(found).resolve().parent)
    for folder in folders:
        if all((folder / name).is_file() for name in _PROGRAMS):
            return folder
    return None


@contextmanager
def serving_postgres(programs: Path) -> Iterator[Server]:
    """Run a server in a folder that is removed with it.

    It will not run as root, so root runs it as somebody else.
    """
    user = _somebody()
    with tempfile.TemporaryDirectory(prefix="h2gcn-pg-", dir="/tmp") as name:
        folder = Path(name)
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        word, data, log = folder / "word", folder / "data", folder / "log"
        word.write_text(PASSWORD)
        word.chmod(0o644)

        def call(program: str, *arguments: object) -> None:
            done = subprocess.run(
                [programs / program, *map(str, arguments)],
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert done.returncode == 0, done.stderr + _read(log)

        call(
            *("initdb", "-D", data, "-U", "owner", "--no-sync", "-E", "UTF8"),
            *("--locale=C", "-A", "scram-sha-256", "--pwfile", word),
        )
        port = _free_port()
        settings = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off "
            f"-c unix_socket_directories={folder}"
        )
        call("pg_ctl", "-D", data, "-w", "-t", 120, "-l", log, "-o", settings, "start")
        try:
            yield Server(port)
        finally:
            call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


def _somebody() -> pwd.struct_passwd | None:
    """Return who runs the server where this is root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read(log: Path) -> str:
    return log.read_text() if log.exists() else ""
