"""The site as a reader meets it, in a Chromium without a window: `make test-browser`.

It opens the pages of `make site` from their folder, without a server: the landing page, search, a
lesson, the ledger's filters, a claim; in light and dark, on a wide screen and on a phone.

    python tests/browser/site_in_chromium.py SITE CHROMIUM [FOLDER FOR SCREENSHOTS]
"""

import sys
from pathlib import Path

LIMIT = 120  # seconds, far beyond any machine; what is waited for is an event
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 380, "height": 800}
LESSON = "01a_dpstgd_upload"
# The page scrolls sideways: something on it is wider than the screen.
TOO_WIDE = "() => document.documentElement.scrollWidth > window.innerWidth"


def open_the_landing_page(page, site: str) -> None:
    """The outcome of each paper stands there, and a card leads to the lessons."""
    page.goto(f"{site}/index.html")
    assert page.locator("section.outcome").count() == 4
    page.locator(".sd-card", has=page.locator("a[href='lessons.html']")).click()
    page.wait_for_url("**/lessons.html")
    page.locator("article a", has_text="Start here").first.wait_for()


def search(page) -> None:
    """Ctrl+K, a word, Enter: a lesson comes first, and opens."""
    page.keyboard.press("Control+k")
    page.keyboard.type("sampled thousand")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    found = page.locator("#search-results li a")
    found.first.wait_for()
    assert LESSON in found.first.get_attribute("href"), found.first.get_attribute("href")
    found.first.click()
    page.wait_for_url(f"**/{LESSON}.html*")


def read_a_lesson(page) -> None:
    """Formulas and pictures are drawn, and the next lesson follows."""
    page.locator("math").first.wait_for()
    drawn = "() => [...document.images].every(image => image.complete && image.naturalWidth > 0)"
    page.wait_for_function(drawn)
    page.locator("a.right-next").click()
    page.wait_for_function(f"() => !location.pathname.includes('{LESSON}')")


def filter_the_ledger(page, site: str) -> None:
    """A choice shows fewer rows and stands in the address; the address shows the same rows."""
    page.goto(f"{site}/ledger.html")
    shown = page.locator("#shown")
    every = int(shown.text_content().split(" of ")[1])
    page.locator("select[data-by=outcome]").select_option("refuted")
    page.locator("select[data-by=paper]").select_option("wang2018")
    few = shown.text_content()
    assert 0 < int(few.split(" of ")[0]) < every, few
    assert page.url.endswith("#paper=wang2018&outcome=refuted"), page.url
    page.locator("input[data-words]").fill("no such words")
    assert shown.text_content() == f"0 of {every}"
    page.goto(f"{site}/index.html")
    page.goto(f"{site}/ledger.html#paper=wang2018&outcome=refuted")
    assert shown.text_content() == few


def open_a_claim(page) -> None:
    """From the ledger to a claim's page: verdict, numbers, command; and back to the same rows."""
    before = page.locator("#shown").text_content()
    page.locator("tr[data-row]:not([hidden]) a").first.click()
    page.wait_for_url("**/claims/wang2018.*.html")
    assert "refuted" in page.locator(".answer").text_content()
    assert "ppkit claims latest --rows wang2018." in page.locator("pre").first.text_content()
    page.go_back()
    page.wait_for_url("**/ledger.html#*")
    assert page.locator("#shown").text_content() == before


def look_on_a_phone(page, site: str, names: list[str]) -> list[str]:
    """Of the pages with these names, those that scroll sideways."""
    page.set_viewport_size(PHONE)
    wide = []
    for name in names:
        page.goto(f"{site}/{name}")
        if page.evaluate(TOO_WIDE):
            wide.append(name)
    page.set_viewport_size(WIDE)
    return wide


def pages_of(folder: Path) -> list[str]:
    """Every page but the claims', and of these the longest of each paper."""
    pages = [file for file in sorted(folder.rglob("*.html")) if file.parent.name != "claims"]
    longest = {}
    for file in sorted((folder / "claims").glob("*.html"), key=lambda file: file.stat().st_size):
        longest[file.name.partition(".")[0]] = file
    return [file.relative_to(folder).as_posix() for file in [*pages, *longest.values()]]


def walk(browser, folder: Path, scheme: str, screenshots: str | None) -> None:
    """All of it in one colour scheme; an AssertionError or a TimeoutError says what went wrong."""
    heard, asked = [], []
    page = browser.new_page(viewport=WIDE, color_scheme=scheme)
    page.set_default_timeout(1_000 * LIMIT)
    page.on("console", lambda told: heard.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    site = folder.absolute().as_uri()

    def picture(name: str) -> None:
        if screenshots:
            page.screenshot(path=Path(screenshots, f"site-{name}-{scheme}.png"))

    open_the_landing_page(page, site)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    picture("lessons")
    search(page)
    picture("lesson")
    read_a_lesson(page)
    filter_the_ledger(page, site)
    picture("ledger")
    open_a_claim(page)
    wide = look_on_a_phone(page, site, pages_of(folder))
    page.close()
    assert not wide, f"wider than a phone: {', '.join(wide)}"
    outside = [url for url in asked if not url.startswith(("file:", "data:"))]
    assert not outside, f"asked of another host: {outside}"
    assert not heard, "on the browser's console:\n" + "\n".join(heard)


def main(site: str, chromium: str, screenshots: str | None = None) -> None:
    """Walk through the site in `site` in light and in dark."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=FLAGS, timeout=1_000 * LIMIT
        )
        for scheme in ("light", "dark"):
            walk(browser, Path(site), scheme, screenshots)
        browser.close()
    print("The site in Chromium: read, searched and filtered in light and dark, on a phone, too")


if __name__ == "__main__":
    main(*sys.argv[1:])
