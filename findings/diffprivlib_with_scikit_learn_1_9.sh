#!/usr/bin/env bash
# Guess: diffprivlib 0.6.6 asks for scikit-learn>=1.4.0, so its LogisticRegression trains with scikit-learn 1.9.0.
# Seen: pip installs the two without a complaint, but no part of diffprivlib can be imported, not even its mechanisms: its forest
#   wants DOUBLE from a private module of scikit-learn, which has gone. With scikit-learn 1.7.2 the import works.
# Why it matters: whoever wants only Laplace noise from it gets an ImportError about trees. Pin scikit-learn beside it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat > "$folder/import.py" <<'PY'
import sys
from importlib.metadata import version

print("diffprivlib", version("diffprivlib"), " scikit-learn", version("scikit-learn"))
try:
    from diffprivlib import mechanisms
except ImportError as error:
    print("ImportError:", str(error).split(" (")[0])
    assert sys.argv[1] == "1.9.0"
    assert "DOUBLE" in str(error)
else:
    print("imported", mechanisms.Laplace.__name__)
    assert sys.argv[1] == "1.7.2"
PY
for version in 1.9.0 1.7.2; do
    "$folder/venv/bin/python" -m pip install -q diffprivlib==0.6.6 "scikit-learn==$version" numpy==2.4.6 scipy==1.17.1
    "$folder/venv/bin/python" -m pip check
    "$folder/venv/bin/python" "$folder/import.py" "$version"
done
