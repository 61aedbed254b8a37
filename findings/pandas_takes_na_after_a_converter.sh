#!/usr/bin/env bash
# Guess: read_csv(..., converters={"id": str}) keeps the ids "NA" and "null" and the empty one, since the converter has the last word.
# Seen: that was true up to pandas 3.0.0. pandas 3.1.1 looks for missing values in what the converter returned, and gives nan for
#   all three. Its documentation says so now. keep_default_na=False keeps them.
# Why it matters: holders of one customer's columns match their rows by id. After an upgrade the customers "NA" and "null" are nan:
#   they match nobody, or each other, and the number of shared customers changes without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/ids.py" <<'PY'
import io
import sys

import pandas as pd

ROWS = "id,amount\n007,1\nNA,2\nnull,3\n,4\n"


def ids(**choices):
    return pd.read_csv(io.StringIO(ROWS), converters={"id": str}, **choices)["id"].tolist()


as_written = ["007", "NA", "null", ""]
print("pandas", pd.__version__, ids(), " with keep_default_na=False:", ids(keep_default_na=False))
assert pd.__version__ == sys.argv[1]
assert ids(keep_default_na=False) == as_written
if sys.argv[1] == "3.0.0":
    assert ids() == as_written
else:
    assert ids()[0] == "007"
    assert all(pd.isna(value) for value in ids()[1:])
PY
for version in 3.0.0 3.1.1; do
    "$folder/venv/bin/python" -m pip install -q "pandas==$version" numpy==2.4.6
    "$folder/venv/bin/python" "$folder/ids.py" "$version"
done
