#!/usr/bin/env bash
# Guess: "using sample 5 rows" draws by a reservoir, as DuckDB's documentation says, so every row of the table is equally likely.
# Seen: DuckDB 2.0.1 with one thread draws 5 of a million loans from the first 20,480 only, and n of them from the first 4,096 n, up
#   to n = 20. From n = 30 on, all rows come. With more threads nearly all come from there. A CSV file gives the same.
# Why it matters: audits draw a few records as canaries, and amplification by sampling needs a known chance for every record. Loans
#   often lie in order of time, so such a sample holds only the oldest. "order by random() limit 5" is uniform.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import duckdb

ROWS, TIMES = 1_000_000, 40
con = duckdb.connect()
con.execute(f"create table loans as select range as id from range({ROWS})")
con.execute("copy loans to 'loans.csv'")
print("duckdb", duckdb.__version__)


def drawn(query, times=TIMES):
    return [row[0] for _ in range(times) for row in con.execute(query).fetchall()]


con.execute("set threads = 1")
for n in (1, 5, 20, 30):
    ids = drawn(f"select id from loans using sample {n} rows")
    print(f"1 thread, {TIMES} samples of {n}: mean id {sum(ids) / len(ids):,.0f}, largest {max(ids):,}")
    assert len(ids) == n * TIMES
    assert (max(ids) < 4_096 * n) == (n <= 20)
    assert n <= 20 or max(ids) > 0.95 * ROWS
ids = drawn("select id from 'loans.csv' using sample 5 rows", times=10)
print(f"from the CSV file, 10 samples of 5: largest id {max(ids):,}")
assert max(ids) < 20_480
con.execute("set threads = 2")
ids = drawn("select id from loans using sample 5 rows")
early = sum(i < 20_480 for i in ids) / len(ids)
print(f"2 threads, {TIMES} samples of 5: {early:.0%} of the ids are below 20,480 (of the table: 2%)")
assert early > 0.5
ids = drawn("select id from loans order by random() limit 5")
print(f"order by random() limit 5: mean id {sum(ids) / len(ids):,.0f}, largest {max(ids):,}")
assert max(ids) > 0.9 * ROWS
PY
