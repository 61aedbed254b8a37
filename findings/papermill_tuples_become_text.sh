#!/usr/bin/env bash
# Guess: execute_notebook(parameters={"layers": (64, 32)}) gives the notebook the tuple (64, 32). Two engineers guessed so.
# Seen: papermill 2.7.0 gives the text "(64, 32)". The metadata of the written notebook, which ought to say what was passed, records the
#   list [64, 32].
# Why it matters: len(layers) is 8, and a loop over the layers runs over characters. The run goes on with other settings than its record
#   shows, for as long as nothing needs a number. Pass a list.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q papermill==2.7.0 ipykernel==7.4.0
"$folder/venv/bin/python" -m ipykernel install --prefix "$folder/venv" >/dev/null 2>&1
cd "$folder"
PATH="$folder/venv/bin:$PATH" "$folder/venv/bin/python" -W ignore - <<'PY'
import json
import pathlib

import nbformat
import papermill

print("papermill", papermill.__version__)
cells = [
    nbformat.v4.new_code_cell("layers = (8,)", metadata={"tags": ["parameters"]}),
    nbformat.v4.new_code_cell("print([layers, len(layers)])"),
]
kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), "in.ipynb")
given = {"layers": (64, 32)}
papermill.execute_notebook("in.ipynb", "out.ipynb", parameters=given, progress_bar=False)
out = json.loads(pathlib.Path("out.ipynb").read_text())
seen = "".join(out["cells"][-1]["outputs"][0]["text"]).strip()
record = out["metadata"]["papermill"]["parameters"]
print("given:", given)
print("in the notebook:", seen)
print("in its metadata:", record)
assert seen == "['(64, 32)', 8]"
assert record["layers"] == [64, 32]
PY
