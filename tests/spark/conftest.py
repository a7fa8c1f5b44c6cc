"""One Spark for all tests: a classic session, and clients of the Connect server in the same JVM."""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpnb import Table
from dpnb.engines.scans import Exact
from dpnb.privacy.definition import ZCDP
from dpnb.releases.accuracy import read_accuracy
from dpnb.releases.plan import plan
from dpnb.sql.parser import parse
from dpnb.views.measures import Scan


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        port = free_port()
        folder = tmp_path_factory.mktemp("spark")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "3g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Dderby.system.home="
            + str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
        }
        builder = SparkSession.builder.master("local[2]").appName("dpnb tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        spark.test_port = port
        yield spark
        spark.stop()


@pytest.fixture(scope="session")
def connect(classic: Any) -> Iterator[Any]:
    """A Connect client; see the module's title."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql.connect.session import SparkSession

        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{classic.test_port}").getOrCreate()
        yield spark
        spark.stop()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Any:
    """The session named by the parameter; the classic one without."""
    return request.getfixturevalue(getattr(request, "param", "classic"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """PySpark's own warnings on versions of pandas and on sockets are not ours.

    Afterwards Spark is silent: later tests of the same process read every message, and the bridge
    to Java tells whenever it collects garbage.
    """
    bridge = logging.getLogger("py4j")
    bridge.setLevel(logging.NOTSET)
    with warnings.catch_warnings():
        for module in ("pyspark", "py4j", "grpc", "google"):
            warnings.filterwarnings("ignore", module=rf"{module}\..*")
        warnings.simplefilter("ignore", ResourceWarning)
        yield
    bridge.setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def scan_of() -> Callable[[Any, str], Scan]:
    """The scan that a statement rests on; of one table, or of several by their names."""

    def find(tables: Any, sql: str) -> Scan:
        tables = {tables.name: tables} if isinstance(tables, Table) else tables
        query = parse(sql, tables)
        planned = plan(query, read_accuracy(query, ZCDP, None, rho=1), 1, ZCDP)
        return planned.scan(planned.views)

    return find


@pytest.fixture(scope="session")
def vectors(scan_of: Callable[[Any, str], Scan]) -> Callable[[Any, Any, str], list[list[int]]]:
    """The exact vectors of a statement, from an engine."""

    def measure(engine: Any, table: Any, sql: str) -> list[list[int]]:
        scan = scan_of(table, sql)
        exact: Exact = engine.measure(scan)
        return [list(exact.reveal(i)) for i in range(len(scan.measures))]

    return measure


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], str]:
    """The path of a Parquet file of an arrow table or a pandas frame."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(rows: Any) -> str:
        table = (
            rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
        )
        path = tmp_path / f"rows{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(table, path)
        return str(path)

    return write
