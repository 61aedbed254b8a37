#!/usr/bin/env bash
# Guess: an ipykernel imports its debugger when somebody begins to debug. Until then debugpy costs a kernel nothing.
# Seen: ipykernel 7.4.0 imports debugpy 1.8.22, about a hundred modules, before the first cell of every kernel. Nobody has sent a
#   debug request, and sys.gettrace() is None. Where debugpy is removed, the kernel starts without it and has none of these modules.
# Why it matters: in a batch every job pays for it. Where kernels are forked from a process that has imported the rest, it is the
#   largest part of what is left of a kernel's start.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q ipykernel==7.4.0 debugpy==1.8.22
"$folder/venv/bin/python" -m ipykernel install --prefix "$folder/venv" >/dev/null 2>&1
cat >"$folder/look.py" <<'PY'
import sys
from importlib import metadata

from jupyter_client.manager import start_new_kernel

LOOK = """
import sys
parts = ("debugpy", "_pydevd_bundle", "_pydev_bundle", "_pydevd_frame_eval", "pydevd_plugins")
print(sum(name.split(".")[0] in parts for name in sys.modules), sys.gettrace())
"""
print("ipykernel", metadata.version("ipykernel"), " debugger:", sys.argv[1])
manager, client = start_new_kernel(kernel_name="python3")
said = []
client.execute_interactive(LOOK, output_hook=lambda m: said.append(m["content"].get("text", "")))
client.stop_channels()
manager.shutdown_kernel(now=True)
modules, tracing = "".join(said).split()
print(f"modules of a debugger in a kernel that nobody debugs: {modules}; tracing: {tracing}")
assert tracing == "None"
assert int(modules) > 50 if sys.argv[1] == "installed" else int(modules) == 0
PY
"$folder/venv/bin/python" "$folder/look.py" installed
"$folder/venv/bin/python" -m pip uninstall -q -y debugpy
"$folder/venv/bin/python" "$folder/look.py" removed
