#!/usr/bin/env bash
# Guess: Dask leaves rows without a key out of every groupby, as pandas does: mean, sum, count and size have the same groups.
# Seen: in Dask 2026.8.0 with pandas 3.1.1 mean, var and std have a group more, <NA>, with the rows that have no bank. sum, count, size and
#   median leave them out. sum / count is therefore no longer mean, because it has fewer rows. dropna=True, written out, mends it.
# Why it matters: "one row for each bank" then depends on the statistic. A bank that nobody knows takes part in an average over banks,
#   and in a release by groups it is one more noisy number, which the accounting did not count.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q "dask[dataframe]==2026.8.0" pandas==3.1.1 numpy==2.4.6 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PY'
import dask
import dask.dataframe as dd
import pandas as pd

print("dask", dask.__version__, "pandas", pd.__version__)
loans = pd.DataFrame({"bank": ["a", "b", None, "a", None, "b"], "amount": [1.0, 2.0, 30.0, 4.0, 50.0, 6.0]})
for parts in (1, 2):
    groups, right = dd.from_pandas(loans, npartitions=parts).groupby("bank").amount, loans.groupby("bank").amount
    for name in ("sum", "count", "size", "median", "mean", "var", "std"):
        seen = getattr(groups, name)().compute()
        print(parts, "parts,", name, seen.to_dict(), "pandas", getattr(right, name)().to_dict())
        assert set(getattr(right, name)().index) == {"a", "b"}
        assert seen.index.isna().any() == (name in ("mean", "var", "std"))
said = dd.from_pandas(loans, npartitions=2).groupby("bank", dropna=True).amount.mean().compute()
print("dropna=True, mean", said.to_dict())
assert not said.index.isna().any()
PY
