"""A plan: run once, side by side, and nothing that has finished is ever lost."""

import json
import os
import signal
import subprocess
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from h2gcn import NodeClassifier, __version__
from h2gcn.exceptions import InputError
from h2gcn.experiments import Event, LocalPool, Run, Store, run_plan
from h2gcn.experiments.pools import Record, count_by_degree, execute
from h2gcn.experiments.runs import FORMAT, key_of, open_graph, read_records
from support.toy_runs import play, toy
from support.webkb import write_tiny_webkb

PATIENCE = 300.0
"""Seconds after which what should happen never will."""

ignore_other_files = pytest.mark.filterwarnings("ignore:.*they are read all the same")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Open a store."""
    with Store(tmp_path / "runs.jsonl") as store:
        yield store


@pytest.fixture
def tiny_texas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let texas be a graph of four nodes, here and in the processes started here."""
    folder = tmp_path / "data" / "texas" / "raw"
    folder.mkdir(parents=True)
    write_tiny_webkb(folder, "texas")
    monkeypatch.setenv("H2GCN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("H2GCN_TRUST_DATA", "1")


class Bench:
    """A pool without processes that finishes runs in the order of their arrival."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.seen: list[Run] = []
        self._runs: deque[Run] = deque()

    @property
    def running(self) -> int:
        """How many are waiting to be finished."""
        return len(self._runs)

    def submit(self, run: Run) -> None:
        """Remember a run."""
        self.seen.append(run)
        self._runs.append(run)

    def next(self) -> tuple[Run, Record]:
        """Finish the oldest."""
        run = self._runs.popleft()
        return run, play(run)


def wait_for(
    condition: Callable[[], Any], driver: subprocess.Popen[str] | None = None
) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if driver is not None:
            assert driver.poll() is None, driver.communicate()[1]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def n_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


# -------------------------------------------------------------------------- a run


def test_a_key_is_what_the_result_depends_on() -> None:
    run = Run("real", "texas", "gcn", {"l2": 1e-5, "epochs": 5}, 1, seed=2)
    assert run.key == key_of(
        dataset="texas", model="gcn", config={"epochs": 5, "l2": 1e-5}, split=1, seed=2
    )
    config = types.MappingProxyType(dict(run.config))
    assert Run("ranks", "texas", "gcn", config, 1, 2).key == run.key
    assert Run("real", "texas", "gcn", run.config, 1, 3).key != run.key


def test_a_run_comes_back_from_its_record() -> None:
    run = toy("finish", split=3)
    assert Run.from_json(json.loads(json.dumps(play(run)))) == run


@ignore_other_files
@pytest.mark.usefixtures("tiny_texas")
def test_the_record_of_a_run() -> None:
    run = Run("real", "texas", "gcn", {"epochs": 7}, split=4, seed=10)
    record = execute(run)
    graph = open_graph("texas")
    fitted = NodeClassifier("gcn", epochs=7, random_state=14).fit(graph, 4)
    seconds = record.pop("seconds")
    assert 0 < seconds < PATIENCE
    assert record == {
        **{"key": run.key, "experiment": "real", "dataset": "texas", "model": "gcn"},
        **{"config": {"epochs": 7}, "split": 4, "seed": 10, "selected": False},
        "val_accuracy": fitted.val_score_,
        "test_accuracy": fitted.score(graph, graph.splits[4].test),
        "best_epoch": fitted.best_epoch_,
        "epochs": 7,
        "by_degree": [[0, 0, 1, round(record["test_accuracy"])]],
        "checksum": record["checksum"],
        "version": __version__,
    }
    assert len(record["checksum"]) == 16
    assert record == json.loads(json.dumps(record))


@ignore_other_files
@pytest.mark.usefixtures("tiny_texas")
def test_a_run_that_fails_has_its_traceback() -> None:
    record = execute(Run("real", "texas", "gcn", {"options": {"heads": 2}}, split=0))
    assert record["val_accuracy"] is record["test_accuracy"] is None
    assert record["error"].startswith("Traceback (most recent call last)")
    assert "the model gcn has no option 'heads'" in record["error"]
    assert "no split 10" in execute(Run("real", "texas", "gcn", {}, split=10))["error"]


def test_accuracy_is_counted_by_doubling_degrees() -> None:
    rng = np.random.default_rng(0)
    degrees = np.concatenate([np.arange(40), rng.integers(0, 40, 200), [1000]])
    right = rng.random(241) < 0.5
    counts = count_by_degree(degrees, right)
    bounds = [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63), (512, 1023)]
    assert counts == [
        [low, high, inside.sum(), right[inside].sum()]
        for low, high in bounds
        for inside in [(low <= degrees) & (degrees <= high)]
    ]


@ignore_other_files
@pytest.mark.usefixtures("tiny_texas")
def test_a_process_gets_what_this_one_would(store: Store) -> None:
    bad = Run("real", "texas", "gcn", {"options": {"heads": 2}}, split=0)
    runs = [Run("real", "texas", "gcn", {"epochs": 20}, n) for n in range(2)]
    assert run_plan([runs[0], bad, runs[1]], store, jobs=1).failed == (bad,)
    for run in runs:
        assert store[run.key] == {
            **execute(run),
            "format": FORMAT,
            "seconds": store[run.key]["seconds"],
        }
    assert "has no option 'heads'" in store[bad.key]["error"]


# ------------------------------------------------------------------------- a plan


def test_every_run_is_done_once_and_kept(store: Store) -> None:
    runs = [toy(split=number) for number in range(5)]
    with LocalPool(2, work=play) as pool:
        first = run_plan(runs + runs[:2], store, pool=pool)
        again = run_plan([*runs, toy(split=9)], store, pool=pool)
    assert (first.total, first.found, first.done, first.failed) == (5, 0, 5, ())
    assert (again.total, again.found, again.done, again.failed) == (6, 5, 6, ())
    assert n_lines(store.path) == 6
    pids = {store[run.key]["pid"] for run in runs}
    assert len(pids) <= 2
    assert os.getpid() not in pids
    expected = {"format": FORMAT, **play(runs[3]), "pid": store[runs[3].key]["pid"]}
    assert store[runs[3].key] == expected


def test_nothing_to_do_starts_nothing(store: Store) -> None:
    run_plan([toy()], store, pool=Bench())
    before = psutil.Process().children()
    assert run_plan([toy()], store, jobs=2).found == 1
    assert run_plan([], store).total == 0
    assert psutil.Process().children() == before


def test_a_failure_stops_nobody_and_is_tried_again(
    store: Store, tmp_path: Path
) -> None:
    fickle = toy("fail once", note=str(tmp_path / "note"))
    runs = [toy(split=0), toy("fail"), fickle, toy(split=1)]
    first = run_plan(runs, store, pool=Bench(2))
    assert (first.done, first.failed) == (2, (runs[1], fickle))
    assert store[runs[1].key]["error"].endswith("a toy that fails")
    again = run_plan(runs, store, pool=Bench(2))
    assert (again.found, again.done, again.failed) == (2, 3, (runs[1],))
    assert "error" not in store[fickle.key]
    assert n_lines(store.path) == 6


def test_runs_on_a_graph_stay_together(store: Store) -> None:
    places = [("b", "x"), ("a", "x"), ("b", "y"), ("a", "y"), ("b", "x"), ("a", "x")]
    config = {"does": "finish"}
    runs = [Run("e", *place, config, split) for split, place in enumerate(places)]
    bench = Bench(2)
    run_plan(runs, store, pool=bench)
    assert [run.split for run in bench.seen] == [0, 4, 2, 1, 5, 3]


def test_events_say_how_far_it_is(store: Store) -> None:
    def run(dataset: str, split: int, takes: float, does: str = "finish") -> Run:
        return Run("e", dataset, "doll", {"does": does, "takes": takes}, split)

    run_plan([run("a", 0, 4.0)], store, pool=Bench())
    runs = [run("a", 0, 4.0), run("a", 1, 2.0), run("b", 0, 9.0), run("b", 1, 1.0)]
    failing = run("b", 2, 1.0, "fail")
    events: list[Event] = []
    run_plan([*runs, failing], store, pool=Bench(2), on_event=events.append)
    assert [e.run for e in events] == [None, *runs[1:], failing]
    assert {(e.total, e.found) for e in events} == {(5, 1)}
    assert [(e.done, e.failed, e.running) for e in events] == [
        *[(1, 0, 2), (2, 0, 2), (3, 0, 2), (4, 0, 1), (4, 1, 0)]
    ]
    # At first b has no run to go by and takes the mean; two runs go side by side.
    expected = [(4 + 3 * 4) / 2, 3 * 3 / 2, 2 * 9 / 2, 5.0, 0.0]
    assert [e.seconds_left for e in events] == pytest.approx(expected)


def test_before_the_first_run_no_time_is_guessed(store: Store) -> None:
    events: list[Event] = []
    run_plan([toy("fail"), toy()], store, pool=Bench(), on_event=events.append)
    assert [e.seconds_left for e in events] == [None, None, 0.0]


def test_a_full_disk_stops_the_plan_with_the_store_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Store.append

    def full(self: Store, record: Record) -> None:
        if len(self) == 2:
            raise InputError("runs.jsonl: cannot be written (No space left on device)")
        append(self, record)

    monkeypatch.setattr(Store, "append", full)
    with (
        LocalPool(2, work=play) as pool,
        pytest.raises(InputError, match="No space left"),
    ):
        run_plan([toy(split=number) for number in range(9)], store, pool=pool)
    assert len(read_records(store.path)) == 2


# ---------------------------------------------------------------------- the processes


def test_a_process_has_one_thread_and_does_not_hear_ctrl_c(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    before = dict(os.environ)
    with LocalPool(1, work=play) as pool:
        run_plan([toy("look")], store, pool=pool)
    found = store[toy("look").key]
    assert found["environment"]["OMP_NUM_THREADS"] == "1"
    assert found["environment"]["OMP_WAIT_POLICY"] == "PASSIVE"
    assert found["deaf"]
    assert dict(os.environ) == before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_process_that_dies_takes_no_other_with_it(
    store: Store, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    unlucky, deadly = toy("wait once", note=str(note)), toy("die")
    others = [toy(split=number) for number in range(4)]
    seen: list[Event] = []

    def kill(event: Event) -> None:
        seen.append(event)
        if len(seen) == 1:  # the first two runs are under way
            wait_for(lambda: note.exists() and note.read_text())
            os.kill(int(note.read_text()), signal.SIGKILL)

    with LocalPool(2, work=play) as pool:
        plan = [unlucky, deadly, *others]
        outcome = run_plan(plan, store, pool=pool, on_event=kill)
    assert outcome.failed == (deadly,)
    assert "killed by signal 9, 2 times" in store[deadly.key]["error"]
    assert store[unlucky.key]["test_accuracy"] == 1.0, "begun once more"
    assert store[unlucky.key]["pid"] != int(note.read_text())
    assert n_lines(store.path) == len(plan)


def test_processes_that_cannot_start_are_not_started_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    elsewhere = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    exec("def nothing(run): pass", elsewhere.__dict__)
    with (
        LocalPool(1, work=elsewhere.nothing) as pool,
        pytest.raises(InputError, match=r"cannot be started.*ended with 1"),
    ):
        run_plan([toy()], store, pool=pool)
    assert capfd.readouterr().err.count("No module named 'elsewhere'") == 3
    assert len(store) == 0


@pytest.mark.parametrize("jobs", [0, -1, 1.5])
def test_jobs_are_a_number_of_processes(store: Store, jobs: Any) -> None:
    with pytest.raises(InputError, match=r"^jobs must be an integer"):
        run_plan([toy()], store, jobs=jobs)


def test_by_default_there_is_a_process_for_each_core() -> None:
    assert LocalPool().size == len(os.sched_getaffinity(0))


# ------------------------------------------------------------------------- the driver

DRIVER = """
import json, signal, sys
from pathlib import Path
from h2gcn.experiments import LocalPool
from h2gcn.experiments import Run
from h2gcn.experiments import run_plan
from h2gcn.experiments import Store
from support.toy_runs import play

# A shell that starts tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    plan, path = sys.argv[1:]
    runs = [Run.from_json(run) for run in json.loads(Path(plan).read_text())]
    with Store(path) as store, LocalPool(2, work=play) as pool:
        outcome = run_plan(runs, store, pool=pool)
    print(outcome.found, outcome.done)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program that runs a plan; return it."""
    drivers = []
    (tmp_path / "driver.py").write_text(DRIVER)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])

    def call(runs: list[Run]) -> subprocess.Popen[str]:
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps([run.to_json() for run in runs]))
        driver = subprocess.Popen(
            [sys.executable, "driver.py", "plan.json", "runs.jsonl"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        drivers.append(driver)
        return driver

    yield call
    for driver in drivers:
        driver.kill()
        driver.communicate(timeout=PATIENCE)


@pytest.mark.slow
def test_kill_9_loses_nothing_that_has_finished(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    path, note = tmp_path / "runs.jsonl", tmp_path / "note"
    # The first run keeps a worker busy for ever, which must die with its driver: until
    # the last start there is always something left to do.
    runs = [toy("wait once", note=str(note))]
    runs += [toy("wait", seconds=0.05, split=number) for number in range(25)]
    finished, n_finished = b"", 0
    for more in (3, 1, 6):
        note.unlink(missing_ok=True)
        driver = start(runs)
        enough = min(n_finished + more, len(runs) - 1)
        wait_for(
            lambda: n_lines(path) >= enough and note.exists(),  # noqa: B023
            driver,
        )
        workers = psutil.Process(driver.pid).children()
        driver.kill()
        driver.communicate(timeout=PATIENCE)
        assert not psutil.wait_procs(workers, timeout=PATIENCE)[1], "they live on"
        content = path.read_bytes()
        assert content.startswith(finished)
        finished = content[: content.rindex(b"\n") + 1]
        n_finished = finished.count(b"\n")
        # A kill between two bytes of a line is rare: here is what it leaves.
        path.write_bytes(finished + b'{"format": 1, "key": "0123')
    assert n_finished < len(runs), "killed in the middle"

    said, complaints = start(runs).communicate(timeout=PATIENCE)
    assert said.split() == [str(n_finished), str(len(runs))], complaints
    assert path.read_bytes().startswith(finished), "not touched"
    assert n_lines(path) == len(runs), "no run was repeated"
    assert {r["key"] for r in read_records(path)} == {run.key for run in runs}


@pytest.mark.slow
def test_ctrl_c_stops_at_once_and_the_next_start_goes_on(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    path, note = tmp_path / "runs.jsonl", tmp_path / "note"
    endless = toy("wait once", note=str(note))
    runs = [toy(), endless, toy("wait", seconds=0), toy(split=1)]
    driver = start(runs)
    wait_for(lambda: n_lines(path) == 3 and note.exists(), driver)
    workers = psutil.Process(driver.pid).children()
    # As a terminal does: the driver and its workers all hear of it.
    os.killpg(driver.pid, signal.SIGINT)
    _, complaints = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == -signal.SIGINT
    assert complaints.count("KeyboardInterrupt") == 1, "the workers say nothing"
    assert not psutil.wait_procs(workers, timeout=PATIENCE)[1]
    finished = path.read_bytes()
    n_finished = finished.count(b"\n")
    assert n_finished in (2, 3), "a line that was not yet on the disk is taken back"
    said, _ = start(runs).communicate(timeout=PATIENCE)
    assert said.split() == [str(n_finished), "4"]
    assert path.read_bytes().startswith(finished)
    assert n_lines(path) == 4
