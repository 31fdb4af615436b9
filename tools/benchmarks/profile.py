"""`python -m tools.benchmarks.profile`: flame graphs of Python processes and JFR recordings of JVMs, under load."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from tools.benchmarks import loadgen, objects
from tools.benchmarks.scenarios import one_of
from tools.benchmarks.stack import BUILD, Penstock, build_loadgen, free_port, process_name

SECONDS = 15


def main() -> None:
    """Runs one Trigger flat out and looks into every process meanwhile."""
    build_loadgen()
    folder = BUILD / "profiles" / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    listen = f"127.0.0.1:{free_port()}"
    stack = Penstock()
    try:
        api = objects.Api(stack.kubeconfig)
        api.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}])
        api.create([objects.broker("profiled")])
        trigger = objects.trigger("profiled", one_of(1)(f"http://{listen}/s/")[0])
        api.create([trigger])
        api.await_ready("triggers", {trigger["metadata"]["name"]})
        load = loadgen.start(stack.url("/bench/profiled"), listen, warmup="10s", duration=f"{SECONDS + 5}s")
        time.sleep(10)
        recorders = [r for p in psutil.Process(stack.process.pid).children(recursive=True) if (r := record(p, folder))]
        for recorder in recorders:
            recorder.wait(timeout=SECONDS + 60)
        report = load.report()
        time.sleep(2)
        print(f"{report['delivered_per_second']:.0f} events/s while profiled; see {folder}")
    finally:
        stack.stop()


def record(process: psutil.Process, folder: Path) -> subprocess.Popen[bytes] | None:
    """Starts a recorder that fits the process; None for one that is neither Python nor Java."""
    name = f"{process_name(process)}-{process.pid}"
    program = Path(process.exe()).name
    if program.startswith("java"):
        command = ["jcmd", str(process.pid), "JFR.start", f"duration={SECONDS}s", f"filename={folder}/{name}.jfr"]
    elif program.startswith("python"):
        spy = str(Path(sys.executable).with_name("py-spy"))
        command = [
            spy,
            "record",
            "--nonblocking",
            "-d",
            str(SECONDS),
            "-o",
            f"{folder}/{name}.svg",
            "-p",
            str(process.pid),
        ]
    else:
        return None
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
