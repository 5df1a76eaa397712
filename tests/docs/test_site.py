"""The site: it builds without a warning, loads nothing from elsewhere, and can be read on a desk and on a phone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

for package in ("mkdocs", "material", "mkdocstrings"):
    pytest.importorskip(package, reason=f"{package} is an optional extra: docs")

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without the results of its code, which test_pages.py runs."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "DIFFOR_DOCS_RUN": "0", "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder, "-f", ROOT / "mkdocs.yml"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_of_docs_is_on_the_site_and_can_be_found(site):
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / place).stat().st_size > 5000, place
    for page in (ROOT / "docs").glob("*.md"):  # in the navigation, which every page carries
        section = (site / page.with_suffix(".html").name).read_text(encoding="utf-8")
        assert f'href="{page.stem}.html"' in start + section or page.stem == "index", page.name
    for page in ("contributing.html", "architecture.html", "changelog.html", "benchmarks/LOG.html"):
        assert (site / page).exists()


def test_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert LOADED.findall(page.read_text(encoding="utf-8")) == [], page.name
    assert "url(http" not in "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))


def test_links_within_the_site_lead_somewhere(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'href="([^"#:?]+)(?:#[^"]*)?"', page.read_text(encoding="utf-8")):
            goal = (page.parent / target).resolve()
            assert goal.exists() or target in (".", ".."), (page.name, target)


def test_the_reference_has_signatures_parameters_and_no_roles_of_sphinx(site):
    text = re.sub(r"<[^>]+>", "", (site / "api" / "estimators.html").read_text(encoding="utf-8"))
    assert "Largest step size of Adam. Presets: 0.003, paper 0.0005. On an encoder: 0.006." in text
    for method in ("conformalize", "predict_interval", "predict_set", "push_to_hub"):
        assert method in text
    assert not re.search(r":(class|func|meth):", text)
    assert "{parameters}" not in text


@pytest.mark.parametrize(
    ("link", "origin", "place", "expected"),
    [
        ("](../benchmarks/results/scale.json)", "docs/scaling.md", "scaling.md", "](benchmarks/results/scale.json)"),
        ("](../comparison.md#when)", "docs/guides/values.md", "guides/values.md", "](../comparison.md#when)"),
        ("](docs/extending.md)", "CONTRIBUTING.md", "contributing.md", "](extending.md)"),
        ("](../README.md)", "docs/export.md", "export.md", "](index.md)"),
        ("](../benchmarks/LOG.md)", "docs/one_call.md", "one_call.md", "](benchmarks/LOG.md)"),
        ("](../examples)", "docs/one_call.md", "one_call.md", "](architecture.md)"),
        ("](https://example.org)", "docs/one_call.md", "one_call.md", "](https://example.org)"),
    ],
)
def test_links_of_the_project_are_those_of_the_site(link, origin, place, expected):
    from hooks import LINK, site_link

    assert LINK.sub(lambda found: site_link(found, ROOT / origin, place), link) == expected


@pytest.fixture(scope="module")
def address(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format, *words):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium here")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_the_screen_and_ask_nobody_else(address, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 844})
    strangers, errors = [], []
    page.on(
        "request", lambda one: None if one.url.startswith((address, "data:", "blob:")) else strangers.append(one.url)
    )
    page.on("console", lambda one: errors.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda one: errors.append(str(one)))
    for place in (
        "index",
        "quickstart",
        "comparison",
        "gallery",
        "migration/lightgbm",
        "api/estimators",
        "api/settings",
    ):
        page.goto(f"{address}{place}.html")
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider == 0, place
        assert page.locator("h1").inner_text()
    assert (strangers, errors) == ([], [])
    page.close()


def test_search_finds_a_setting(address, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    page.goto(f"{address}index.html")
    page.locator("input[name=query]").fill("keep_out_of_fold")
    first = page.locator(".md-search-result__link").first
    first.wait_for(timeout=60_000)
    assert "html" in first.get_attribute("href")
    page.close()


def test_pictures_have_words(address, browser):
    page = browser.new_page()
    for place in ("index", "method"):
        page.goto(f"{address}{place}.html")
        texts = page.eval_on_selector_all("article img", "all => all.map(one => one.alt)")
        assert texts
        assert all(len(text) > 20 for text in texts)
    page.close()
