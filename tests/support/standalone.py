"""A Spark standalone cluster from the PySpark wheel: a master, and workers of one core whose Python lacks rowmerge.

Drivers are other processes, because a process has one Spark. As a script, the module is such a driver: it reads one statement per line as
JSON, and writes one line of JSON for each.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

ROOT = Path(__file__).parents[2]
MARK = "answer: "
START_SECONDS = 120
WORKER_PACKAGES = ("pyarrow", "numpy", "pandas")
"""What `pip install 'pyspark[sql]'` installs. The workers get PySpark from the folder of Spark."""
DRIVER_SETTINGS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
EMPTY_FOLDER = 'mount -t tmpfs tmpfs "$0"'
WRITES_ELSEWHERE = (
    "d=$(mktemp -d) && mount -t tmpfs -o size={} tmpfs $d && mkdir $d/files $d/work && "
    'mount -t overlay -o lowerdir="$0",upperdir=$d/files,workdir=$d/work overlay "$0"'
)
"""The command that mounts a folder with the files of another one, but whose new files take space of a limited size elsewhere."""
SMALL_LOCAL_FOLDER = 'mount -t tmpfs -o size=1m tmpfs "$0" && export SPARK_LOCAL_DIRS="$0"'
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@cache
def worker_python(packages: Sequence[str] = WORKER_PACKAGES) -> str:
    """Return the Python of a new environment with only these packages and what they require. It exists until this process ends.

    The environment links the packages of this environment, so that a test needs no network.
    """
    folder = Path(tempfile.mkdtemp(prefix="worker-python-"))
    folder.chmod(0o755)  # a worker may run as another user
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    venv.EnvBuilder(with_pip=False).create(folder)
    site_packages = next(folder.glob("lib/python*/site-packages"))
    for name in _with_requirements(packages):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(distribution.locate_file(top))
    return str(folder / "bin" / "python")


def _with_requirements(packages: Iterable[str]) -> set[str]:
    """Return the names of packages, and of all that they require."""
    closure, names = set(), set(packages)
    while names:
        name = names.pop()
        closure.add(name)
        # A requirement with a semicolon depends on an extra or on the platform.
        required = {re.split(r"[^\w.-]", text)[0] for text in importlib.metadata.requires(name) or () if ";" not in text}
        names |= required - closure
    return closure


class StandaloneCluster:
    """A running master and its workers. Each has one core and 1 GB, and its logs in `folder`.

    Each worker has a host of its own, because Spark runs no speculative copy of a task on the host of the first one.
    """

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        """Start the processes, and wait until the workers have registered.

        Args:
            folder: The folder for logs and for the files of applications.
            workers: The number of workers.
            cores: The number of tasks that each worker runs at the same time.
            memory: The memory that each worker has for executors.
        """
        self._memory = memory
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        log = self._start("master", ["org.apache.spark.deploy.master.Master", "--host", "localhost", "--port", "0", "--webui-port", "0"])
        self.master = _logged(log, r"Starting Spark master at (spark://\S+)")
        self._page = _logged(log, r"Started MasterWebUI at (http://\S+)|MasterWebUI.* started at (http://\S+)")
        for _ in range(workers):
            self.start_worker(cores=cores)
        self.await_workers(workers)

    def start_worker(self, *, command: Sequence[str] = (), cores: int = 1) -> subprocess.Popen[bytes]:
        """Start a worker, and return its process.

        Args:
            command: A command before that of Java, such as `unshare --mount`.
            cores: The number of tasks that the worker runs at the same time.
        """
        name, host = f"worker-{len(self._processes)}", f"127.0.0.{len(self._processes)}"
        arguments = ["org.apache.spark.deploy.worker.Worker", "--host", host, "--port", "0", "--webui-port", "0"]
        arguments += ["--cores", str(cores), "--memory", self._memory, "--work-dir", str(self.folder / name), self.master]
        self._start(name, arguments, command)
        return self._processes[-1]

    def start_worker_with_other_view(self, folder: Path, mount: str = EMPTY_FOLDER) -> subprocess.Popen[bytes]:
        """Start a worker that sees another folder at a path. It needs the right to mount (root).

        Args:
            folder: The folder.
            mount: The command of the shell that mounts the other folder at the path `$0`.
        """
        return self.start_worker(command=["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', str(folder)])

    def await_workers(self, count: int) -> None:
        """Wait until the master has so many live workers."""
        _wait(lambda: sum(worker["state"] == "ALIVE" for worker in self._status()["workers"]) == count, "workers")

    def executors(self) -> list[int]:
        """Return the process ids of all executors of this cluster."""
        workers = {pid for process in self._processes for pid in (process.pid, *_children(process.pid))}
        return [pid for worker in workers for pid in _children(worker) if "CoarseGrainedExecutorBackend" in _command_line(pid)]

    def kill_executor(self) -> None:
        """Kill one executor, as the kernel does when the memory is exhausted. Wait until there is one."""
        _wait(self.executors, "an executor")
        os.kill(self.executors()[0], signal.SIGKILL)

    def replace_worker(self) -> None:
        """Kill a worker and its executor, as a host without power does. Then start another worker. Wait until there is an executor."""
        _wait(self.executors, "an executor")
        executor = self.executors()[0]
        for process in (_parent(executor), executor):
            os.kill(process, signal.SIGKILL)
        self.start_worker()

    def close(self) -> None:
        """Stop all processes of the cluster."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def _status(self) -> Any:
        with urllib.request.urlopen(f"{self._page}/json/", timeout=10) as answer:
            return json.load(answer)

    def _start(self, name: str, arguments: Sequence[str], command: Sequence[str] = ()) -> Path:
        home = Path(pyspark.__file__).parent
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        environment |= {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_HOSTNAME": "localhost"}
        log4j = self.folder / "log4j2.properties"
        log4j.write_text("rootLogger.level = info\nrootLogger.appenderRef.c.ref = c\nappender.c.type = Console\nappender.c.name = c\n")
        options = [*_JAVA_OPTIONS.split(), "-Xmx256m", f"-Dlog4j2.configurationFile={log4j.as_uri()}"]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            line = [*command, java, *options, "-cp", f"{home / 'jars'}/*", *arguments]
            self._processes.append(subprocess.Popen(line, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=self.folder))
        return log


class Driver:
    """A process with a session of rowmerge, whose Spark is the driver of an application on a cluster."""

    def __init__(
        self,
        warehouse: str,
        settings: Mapping[str, str],
        *,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
        **arguments: Any,
    ) -> None:
        """Start the process.

        Args:
            warehouse: The location of the warehouse.
            settings: The Spark settings of the profile.
            environment: Variables that the process gets in addition.
            command: A command before that of Python, such as `setpriv --reuid=1000`.
            arguments: Other arguments of `rowmerge.connect`.
        """
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
        configuration = json.dumps({"location": warehouse, "spark_config": dict(settings), **arguments})
        line = [*command, sys.executable, "-m", "tests.support.standalone", configuration]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(line, **pipes, text=True, env=environment, cwd=ROOT)  # type: ignore[call-overload]

    def sql(self, statement: str) -> list[str]:
        """Run a statement, and return its rows as JSON strings in order. Raises StatementError if it fails."""
        self.send(statement)
        return self.answer()

    def send(self, statement: str) -> None:
        """Begin to run a statement, whose rows `answer` returns."""
        self.process.stdin.write(json.dumps(statement) + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str]:
        """Return the rows of the statement that was sent last."""
        for line in self.process.stdout:
            if line.startswith(MARK):
                answer: dict[str, Any] = json.loads(line[len(MARK) :])
                if "error" in answer:
                    raise StatementError(answer["error"], answer["message"])
                rows: list[str] = answer["rows"]
                return rows
        raise AssertionError(f"The driver ended with {self.process.wait()}")

    def close(self) -> None:
        """Stop the process."""
        try:
            self.process.communicate("", timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()


class StatementError(Exception):
    """The error of a statement in the process of a driver. `kind` is the name of the class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


def _wait(condition: Any, what: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"The cluster has no {what} after {START_SECONDS} seconds")
        time.sleep(0.1)


def _logged(log: Path, pattern: str) -> str:
    """Return the text that a process logs, once it has."""
    _wait(lambda: re.search(pattern, log.read_text()), f"line {pattern}")
    match = re.search(pattern, log.read_text())
    assert match is not None
    return next(filter(None, match.groups()))


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _parent(int(path.name)) == pid]


def serve(configuration: Mapping[str, Any]) -> None:
    """Answer each line of standard input. The first one is answered after the session has started."""
    import rowmerge

    session: rowmerge.Session | None = None
    for line in sys.stdin:
        try:
            session = session or rowmerge.connect(**configuration)
            rows = session.sql(json.loads(line)).collect()
            answer: dict[str, Any] = {"rows": sorted(json.dumps(row.asDict(recursive=True), default=str) for row in rows)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the test hears of it
            answer = {"error": type(error).__name__, "message": str(error)}
        sys.stdout.write(f"{MARK}{json.dumps(answer)}\n")
        sys.stdout.flush()
    if session is not None:
        session.close()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
