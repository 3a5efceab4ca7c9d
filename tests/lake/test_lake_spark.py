"""Apache Spark answers as the store does: a standalone cluster of a master and two workers, one session for all."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import provml.lake
from lake.helpers import GOLDEN, answer_of, assert_same, assert_same_table, write_golden_home
from lake.spark_cluster import SHORT_LIVED, cluster, session
from lake.worlds import record_world
from provml.errors import FileFormatError, QueryError
from provml.lake.twins import twins
from provml.store import Store

WITHOUT_JAVA = """
import provml.lake
from provml.errors import ServiceError
try:
    provml.lake.open("lake", "spark", master="local[1]")
except ServiceError as error:
    print(error)
"""
CASES = ("q3-given", "q5", "l4", "l5-wide", "l7-high", "b10-given", "b12-any")


# pyspark warns of pandas 3 when it is imported, and leaves the socket to its gateway open
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_answers_as_the_store_does(tmp_path: Path) -> None:
    home = write_golden_home(tmp_path / "home")
    record_world(home, seed=3)
    (tmp_path / "empty" / "runs").mkdir(parents=True)
    provml.lake.build(home, tmp_path / "lake", include_open=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyspark  # noqa: F401
    with cluster(tmp_path / "cluster") as url:
        java = " ".join(SHORT_LIVED)
        options = {"spark.driver.extraJavaOptions": java, "spark.executor.extraJavaOptions": java}
        spark = session(url, **options, **{"spark.sql.shuffle.partitions": "1"})
        try:
            with Store(home) as store, provml.lake.open(tmp_path / "lake", "spark", session=spark) as lake:
                asked = set()
                for name in CASES:
                    expected = answer_of(store, *GOLDEN[name])
                    assert len(expected) > 0
                    assert_same(expected, answer_of(lake, *GOLDEN[name]), name)
                    asked.add(store.catalog[GOLDEN[name][0]].name)
                assert asked == set(twins())
                assert_same_table(store.table(), lake)
                epochs = lake.sql()  # a DataFrame of Spark
                assert epochs.filter("model = 'alexnet'").count() > 0
                assert lake.to_arrow().num_rows == epochs.count()
                with pytest.raises(QueryError, match="no_such_column"):
                    lake.rows("SELECT no_such_column FROM runs")
                provml.lake.build(tmp_path / "empty", tmp_path / "second")
                with provml.lake.open(tmp_path / "second", "spark", session=spark) as second:
                    assert second.rows("SELECT count(*) FROM runs")[1] == [(0,)]
                assert lake.sql("runs").count() > 0  # of the same session, but not of the other lake
                assert not spark.catalog.tableExists("runs")
                for file in (tmp_path / "lake" / "runs").iterdir():
                    file.unlink()
                with pytest.raises(FileFormatError, match="gone or damaged"):
                    lake.table()
        finally:
            spark.stop()


def test_spark_without_java_says_what_is_missing(tmp_path: Path) -> None:
    write_golden_home(tmp_path / "home")
    provml.lake.build(tmp_path / "home", tmp_path / "lake")
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "nothing")}
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_JAVA]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
    assert "local[1]: it does not start" in done.stdout
    assert "Check that Java 17 or later is installed" in done.stdout
