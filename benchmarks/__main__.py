"""Run the benchmark: all engines change copies of the same tables, each in its own process, one after the other.

    python -m benchmarks --scale 1 --out results.json
    python -m benchmarks --scale 0.01 --smoke

`python -m benchmarks --help` lists the other options.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from benchmarks.agreement import fingerprint
from benchmarks.engines.registry import ENGINES, Peers
from benchmarks.lineitem import Lineitem
from benchmarks.results import Case, Run
from benchmarks.scenarios import SCENARIOS, TEXTS, changes_rows, scenario_named, sources_of
from benchmarks.tables import Tables
from benchmarks.worker import MARK

FEWER_COLUMNS = 3
"""The scale factor from which texts are not compared, because the comparison would take longer than the measured steps."""
ROOT = Path(__file__).resolve().parents[1]


def main(words: list[str] | None = None) -> None:
    arguments = parsed(words)
    # Ended from outside, it ends the engine's process too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    peers = Peers(arguments.peers.resolve())
    folder = arguments.folder.resolve() / f"sf{arguments.scale:g}"
    folder.mkdir(parents=True, exist_ok=True)
    # Two runs in one folder would delete each other's tables.
    lock = (folder / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    scenarios = chosen(SCENARIOS, arguments.scenarios)
    run = Run(arguments.scale, f"{datetime.now(timezone.utc):%Y-%m-%d}", machine())
    if arguments.add and arguments.out.exists():
        run = Run.read(arguments.out)
        run = run if arguments.cold else run.without(scenarios, chosen(ENGINES, arguments.engines))
    engines = []
    for engine in chosen(ENGINES, arguments.engines):
        missing = ENGINES[engine].missing(peers)
        if missing:
            run.skipped[engine] = missing
            print(f"{engine} is left out: {missing}", file=sys.stderr)
        else:
            engines.append(engine)
    sources = load(folder, arguments.scale, engines, scenarios, 1 + arguments.repetitions)
    for engine in engines:
        job = {
            "engine": engine,
            "folder": str(folder),
            "peers": str(peers.folder),
            "scenarios": scenarios,
            "sources": sources,
            "repetitions": arguments.repetitions,
            "seconds": arguments.seconds,
            "prepared": False,
        }
        python = ENGINES[engine].python(peers)
        if arguments.cold:
            begin(run, job, python, arguments.patience, arguments.cold)
        else:
            work(run, job, python, arguments.patience)
        run.write(arguments.out)
        Tables(folder).delete_removed()
    disagreements = run.disagreements()
    failed = [f"{case.engine}, scenario {case.scenario}: {case.failed}" for case in run.cases if case.failed]
    print("\n".join([*disagreements, *failed]) or f"all engines end with the same rows; {arguments.out}", file=sys.stderr)
    if disagreements or (failed and arguments.smoke):
        raise SystemExit(1)


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H's scale factor: 1 has 6 million rows")
    parser.add_argument("--engines", default="*", help=f"patterns with commas, of {', '.join(ENGINES)}")
    parser.add_argument("--scenarios", default="*", help="patterns with commas: 1, 8, D*, …")
    parser.add_argument("--repetitions", type=int, default=5, help="after the first one")
    parser.add_argument("--seconds", type=float, default=60.0, help="no further repetition of a scenario when its own took so long")
    parser.add_argument("--patience", type=float, default=900.0, help="an engine that takes longer for one repetition has failed")
    parser.add_argument(
        "--cold", type=int, default=0, metavar="N", help="N new processes for each scenario instead, of one repetition each"
    )
    parser.add_argument("--smoke", action="store_true", help="a failing engine fails the run, as different rows always do")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rowmerge-benchmarks", help="data and tables; kept")
    parser.add_argument("--peers", type=Path, default=ROOT / ".peers", help="jars and Python of the peers; see `make bench-peers`")
    parser.add_argument("--out", type=Path, default=Path("benchmark.json"))
    parser.add_argument("--add", action="store_true", help="keep what the results have of other scenarios and engines")
    return parser.parse_args(words)


def chosen(names: dict[str, Any], patterns: str) -> list[str]:
    """Return the names that match a pattern, in their order."""
    return [name for name in names if any(fnmatch(name, pattern.strip()) for pattern in patterns.split(","))]


def load(folder: Path, scale: float, engines: list[str], scenarios: list[str], repetitions: int) -> dict[str, str]:
    """Create missing data and tables, and return the source files by name."""
    data, tables = Lineitem(folder, scale, 64 if scale > 3 else 16 if scale >= 0.1 else 4), Tables(folder)
    source_files = {name: str(data.source(name)) for scenario in scenarios for name in sources_of(SCENARIOS[scenario], repetitions)}
    layouts = list(dict.fromkeys(SCENARIOS[scenario].layout for scenario in scenarios))
    formats = list(dict.fromkeys(ENGINES[engine].format for engine in engines))
    missing_tables = [
        (format_, layout, [str(part) for part in data.layout(layout)])
        for format_ in formats
        for layout in layouts
        if not tables.loaded_folder(format_, layout).exists()
    ]
    if missing_tables:
        command = [sys.executable, "-m", "benchmarks.tables", str(folder)]
        subprocess.run(command, input=json.dumps(missing_tables), text=True, check=True, env=settings())
    return source_files


def settings() -> dict[str, str]:
    """Return the environment of the engines. Java starts without a class archive, as for users who did not create one."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "ROWMERGE_CACHE": os.devnull}


def work(run: Run, job: dict[str, Any], python: str, patience: float) -> None:
    """Run an engine's process to its end. A process that dies has failed in its scenario, and a new one continues with the next scenario.

    `patience`: the number of seconds without a message after which a process is killed.
    """
    remaining_scenarios = list(job["scenarios"])
    while remaining_scenarios:
        started_scenarios = _process(run, {**job, "scenarios": remaining_scenarios}, python, patience)
        remaining_scenarios = remaining_scenarios[len(started_scenarios) :]


def begin(run: Run, job: dict[str, Any], python: str, patience: float, processes: int) -> None:
    """Run each scenario in this number of new processes for `Case.cold`, and replace earlier results."""
    layouts = set()
    for scenario in job["scenarios"]:
        layout = SCENARIOS[scenario].layout
        alone = {**job, "scenarios": [scenario], "repetitions": 0}
        if layout not in layouts:
            # This process only configures the tables. It is not measured.
            work(replace(run, cases=[]), alone, python, patience)
            layouts.add(layout)
        case = run.case(scenario, job["engine"])
        if case is None:
            case = Case(scenario, job["engine"])
            run.cases.append(case)
        case.cold = []
        for _ in range(processes):
            once = replace(run, cases=[])
            work(once, {**alone, "prepared": True}, python, patience)
            (cold_case,) = once.cases
            case.rows, case.answers, case.failed = (
                case.rows or cold_case.rows,
                case.answers or cold_case.answers,
                case.failed or cold_case.failed,
            )
            case.cold += [repetition["process"] for repetition in cold_case.repetitions]


def _process(run: Run, job: dict[str, Any], python: str, patience: float) -> list[str]:
    """Return the scenarios that were started."""
    engine, begun = job["engine"], list[str]()
    with tempfile.TemporaryFile("w+") as errors:
        process = Process(python, errors, patience)
        for message in process.tell(job):
            if "versions" in message:
                run.versions |= message["versions"]
                run.started[engine] = message["started"]
                continue
            if message["scenario"] not in begun:
                begun.append(message["scenario"])
                run.cases.append(Case(message["scenario"], engine))
            _note(run, message)
            if "check" in message:
                process.go_on()
        errors.seek(0)
        if len(begun) < len(job["scenarios"]) or process.ended_badly:
            if not begun or run.cases[-1].repetitions:
                begun.append(job["scenarios"][min(len(begun), len(job["scenarios"]) - 1)])
                run.cases.append(Case(begun[-1], engine))
            run.cases[-1].failed = process.verdict or reason(errors.read())
    return begun


class Process:
    """A worker's process. It is killed with its child processes if it sends no message for `patience` seconds."""

    def __init__(self, python: str, errors: IO[str], patience: float) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors, "start_new_session": True}
        self._process = subprocess.Popen([python, "-m", "benchmarks.worker"], **pipes, text=True, env=settings(), cwd=ROOT)
        self._patience = patience
        self.verdict: str | None = None

    @property
    def ended_badly(self) -> bool:
        return self._process.wait() != 0

    def tell(self, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a job to the worker, and yield its messages until it ends."""
        assert self._process.stdout is not None
        self._say(json.dumps(job))
        timer = self._timer()
        try:
            for line in self._process.stdout:
                timer.cancel()
                if line.startswith(MARK):
                    yield json.loads(line[len(MARK) :])
                timer = self._timer()
            self._process.wait()
        finally:
            timer.cancel()
            if self._process.poll() is None:
                self._end()

    def go_on(self) -> None:
        """Let the worker continue, after the comparison of its table."""
        self._say("")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _timer(self) -> threading.Timer:
        timer = threading.Timer(self._patience, self._give_up)
        timer.daemon = True
        timer.start()
        return timer

    def _give_up(self) -> None:
        self.verdict = f"took more than {self._patience:.0f} s"
        self._end()

    def _end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)


def _note(run: Run, message: dict[str, Any]) -> None:
    case = run.cases[-1]
    if "check" in message:
        scenario, format_ = scenario_named(case.scenario), ENGINES[case.engine].format
        columns = scenario.columns if run.scale < FEWER_COLUMNS else tuple(c for c in scenario.columns if c not in TEXTS)
        case.rows = fingerprint(Path(message["check"]), format_, columns) if changes_rows(scenario) else None
        case.answers = message["answers"]
    elif "failed" in message:
        case.failed = message["failed"]
    else:
        case.repetitions.append({key: value for key, value in message.items() if key not in ("scenario", "repetition")})
        seconds = " ".join(f"{label} {value:.2f}" for label, value in message["seconds"].items())
        print(f"{case.engine:<18} {case.scenario:<16} {message['repetition']} {seconds}", file=sys.stderr, flush=True)


def reason(errors: str) -> str:
    """Return the last line of a traceback."""
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    return lines[-1][:300] if lines else "the process ended"


def machine() -> dict[str, str]:
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        model_line = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        model = model_line[1] if model_line else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cores": str(os.cpu_count()), "memory": f"{memory:.0f} GiB", "CPU": model}


if __name__ == "__main__":
    main()
