"""JupyterLab as a person meets it, in a Chromium without a window: `make test-browser`.

No test of pytest, and none that `make test` runs: it needs a browser, and a driver with a lock of
its own.  It opens `ppkit lab` on a copy of the tree, runs 01a_dpstgd_upload from the menu, answers
a question, moves its slider, saves, follows the link to the solution, types a command into a
terminal, and looks at what is left.

    python tests/browser/lab_in_chromium.py PPKIT CHROMIUM [FOLDER FOR SCREENSHOTS]
"""

import contextlib
import json
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from lab_server import LIMIT, TOKEN, copy_of_the_tree, opened, own_settings

LESSON, SOLUTION = "01a_dpstgd_upload", "01a_dpstgd_upload_solution"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
# Errors on the console that are not ours, each with the reason.
TOLERATED: dict[str, str] = {}

CURRENT = "window.jupyterapp.shell.currentWidget"
READY = f"() => {CURRENT}?.context?.sessionContext?.session?.kernel?.status === 'idle'"
CONNECTED = f"() => {CURRENT}?.content?.session?.connectionStatus === 'connected'"
RAN = f"""() => {{
    const code = [...{CURRENT}.content.model.cells].filter(
        cell => cell.type === 'code' && cell.sharedModel.getSource().trim());
    const failed = cell => cell.outputs.toJSON().some(output => output.output_type === 'error');
    return code.every(cell => cell.executionCount) || code.some(failed);
}}"""
SHOW_CELL = f"""words => {{
    const notebook = {CURRENT}.content;
    const found = [...notebook.model.cells].findIndex(
        cell => cell.sharedModel.getSource().includes(words));
    notebook.activeCellIndex = found - 1;
    return window.jupyterapp.commands.execute('notebook:move-cursor-down');  // this one scrolls
}}"""


def run_the_lesson(page, address: str) -> None:
    """What a student does first; this step and all others wait for what they should bring about."""
    page.goto(f"{address}/?token={TOKEN}")
    listed = page.locator(".jp-DirListing-itemText", has_text=f"{LESSON}.ipynb")
    listed.wait_for()
    assert "/lab/tree/work" in page.url, page.url
    listed.dblclick()
    page.wait_for_function(READY, polling=200)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.wait_for_function(RAN, polling=500, timeout=6_000 * LIMIT)


def answer_a_question(page) -> None:
    """After all cells ran: a click is judged at once, beneath the buttons and beneath the verdict;
    of the cell that judges only its first line is on the screen."""
    page.evaluate(SHOW_CELL, 'show.predict("top"')
    asked = page.locator(".jp-CodeCell", has_text='show.predict("top"').first
    for letter, judged in (("d", "which is not what came out"), ("a", "which is right")):
        asked.get_by_role("button", name=letter, exact=True).click()
        asked.get_by_text(f"You chose {letter}, {judged}").wait_for()
    page.evaluate(SHOW_CELL, "hits[0.1]")
    page.locator(".jp-CodeCell", has_text="You chose a, which is right").nth(1).wait_for()
    assert page.get_by_text("hits[0.1]").count() == 0, "the judge cell is not folded"


def move_the_slider(page) -> None:
    """Drag it by 40 pixels; the picture beneath it is drawn then, and not before."""
    page.evaluate(SHOW_CELL, "show.control(")
    handle, redrawn = page.locator(".noUi-handle").first, page.locator(".widget-output img")
    handle.scroll_into_view_if_needed()
    assert redrawn.count() == 0, "the slider drew before anybody moved it"
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y, steps=5)
    page.mouse.up()
    redrawn.first.wait_for()
    redrawn.first.scroll_into_view_if_needed()
    page.wait_for_function(READY, polling=200)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")


def open_the_solution(page) -> None:
    """Follow the link at the end of the lesson."""
    page.evaluate(SHOW_CELL, f"](solutions/{SOLUTION}.ipynb)")
    page.locator("a", has_text=SOLUTION).click()
    page.locator(".lm-TabBar-tabLabel", has_text=f"{SOLUTION}.ipynb").wait_for()
    page.wait_for_function(READY, polling=200)


def ask_in_a_terminal(page, tree: Path) -> None:
    """What 00's third exercise asks for."""
    page.evaluate("() => { window.jupyterapp.commands.execute('terminal:create-new'); }")
    screen = page.locator(".jp-Terminal .xterm-screen:visible")
    screen.wait_for()
    page.wait_for_function(CONNECTED, polling=200)
    screen.click()
    page.keyboard.type('cd "$PPKIT_HOME" && ppkit claims > told && mv told claims\n')
    until((tree / "claims").exists, "`ppkit claims` in Lab's terminal")
    assert re.search(r"✕ \d+ refuted", (tree / "claims").read_text("utf-8"))


def until(true, what: str) -> None:
    """Wait for an event outside the browser."""
    deadline = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < deadline, f"waited {LIMIT} s for {what}"
        time.sleep(0.2)


def look_at(saved: Path) -> None:
    """The saved copy: every cell run in order, no error, nothing on stderr, no bar left."""
    code = [
        cell
        for cell in json.loads(saved.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code" and cell["source"]
    ]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    wrong = [
        output
        for output in outputs
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
    assert not wrong, wrong
    left = [output["text"] for output in outputs if "it/s]" in "".join(output.get("text", ""))]
    assert not left, left


def main(ppkit: str, chromium: str, screenshots: str | None = None) -> None:
    """Do all of it; an AssertionError or a TimeoutError says what did not come about."""
    from playwright.sync_api import sync_playwright

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server ends with us
    found = []

    def heard(message):
        if message.type == "error" and not any(words in message.text for words in TOLERATED):
            found.append(message.text)

    with tempfile.TemporaryDirectory(prefix="ppkit-") as place, contextlib.ExitStack() as stack:
        tree = copy_of_the_tree(Path(place, "tree"))
        before = {path: path.read_bytes() for path in (tree / "notebooks").rglob("*.ipynb")}
        address = stack.enter_context(
            opened(
                Path(ppkit).absolute(),
                tree,
                own_settings(Path(place)),
                "--LabApp.expose_app_in_browser=True",
            )
        )
        started = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium, args=FLAGS, timeout=1_000 * LIMIT
        )
        page = stack.enter_context(started).new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(1_000 * LIMIT)
        page.on("console", heard)
        page.on("pageerror", lambda error: found.append(str(error)))

        def picture(name: str) -> None:
            if screenshots:
                page.screenshot(path=Path(screenshots, f"{name}.png"))

        try:
            run_the_lesson(page, address)
            picture("run")
            answer_a_question(page)
            picture("question")
            move_the_slider(page)
            picture("slider")
            open_the_solution(page)
            picture("solution")
            ask_in_a_terminal(page, tree)
            picture("terminal")
        except Exception:
            picture("failed")
            raise
        look_at(tree / f"work/{LESSON}.ipynb")
        changed = [path.name for path, content in before.items() if path.read_bytes() != content]
        assert not changed, f"tracked lessons changed: {changed}"
        assert not found, "on the browser's console:\n" + "\n".join(found)
    print(
        f"JupyterLab in Chromium: {LESSON} run, answered, slider moved, the console free of errors"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
