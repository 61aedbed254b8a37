"""Real files as gzipped CSV in another folder, for the run that CI makes on them: gzip_real_data.py
FROM TO."""

import sys
from pathlib import Path

import pandas as pd


def pack(source: Path, target: Path) -> None:
    """Write every CSV and parquet file of `source` into `target` as .csv.gz, rows and columns as
    they are."""
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        if file.suffix in (".csv", ".parquet"):
            table = (
                pd.read_parquet(file)
                if file.suffix == ".parquet"
                else pd.read_csv(file, low_memory=False)
            )
            table.to_csv(
                target / f"{file.stem}.csv.gz",
                index=False,
                compression={"method": "gzip", "compresslevel": 1},
            )


if __name__ == "__main__":
    pack(*map(Path, sys.argv[1:3]))
