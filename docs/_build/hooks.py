"""What mkdocs does beside reading pages: runs their code, adds pages that stand elsewhere, and writes tables.

``DIFFOR_DOCS_RUN=0`` leaves the code of pages alone, for a quick look or a test of everything else.
"""

from __future__ import annotations

import html
import logging
import os
import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from running import BLOCK, Shown, run_page

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "architecture.md": "ARCHITECTURE.md",
             "benchmarks/LOG.md": "benchmarks/LOG.md"}  # fmt: skip
"""Pages of the site that stand beside docs/, by their places in it."""
RUN = ("index.md", "quickstart.md", "guides/", "gallery.md", "method.md", "migration/")
"""Pages whose Python blocks are run; all others are run by tests of their own."""
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.diffor")
shown_on: dict[str, list[Shown]] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that the navigation does not name below its last section."""
    named = set(re.findall(r"[\w/]+\.md", str(config.nav)))
    others = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    if config.nav is not None and others:
        config.nav[-1]["Project"] += others
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand beside docs/, and the files that pages link to."""
    for place, path in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text(encoding="utf-8")))
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / path for path in ELSEWHERE.values())]
    for page in pages:
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            file = (page.parent / target).resolve()
            inside = file.is_file() and ROOT in file.parents
            if not inside or (ROOT / "docs") in file.parents or file.suffix == ".md":
                continue
            place = file.relative_to(ROOT).as_posix()
            if files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links fit the site, write tables of settings, and run the page's code."""
    place = page.file.src_uri
    origin = ROOT / ELSEWHERE[place] if place in ELSEWHERE else ROOT / "docs" / place
    markdown = LINK.sub(lambda found: site_link(found, origin, place), markdown)
    markdown = markdown.replace("<!-- settings -->", settings_table())
    if not place.startswith(RUN) or not BLOCK.search(markdown) or os.environ.get("DIFFOR_DOCS_RUN") == "0":
        return markdown
    started = time.monotonic()
    shown = shown_on[place] = run_page(markdown, place)
    log.info("%s: %d blocks in %.0f s", place, len(shown), time.monotonic() - started)
    numbers = iter(range(len(shown)))
    return BLOCK.sub(lambda found: found[0] + f"\n\n<div data-shown='{next(numbers)}'></div>\n", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what blocks printed and drew below them."""
    results = shown_on.get(page.file.src_uri, [])
    return re.sub(
        r"""<div data-shown=['"](\d+)['"]></div>""", lambda found: as_html(results[int(found[1])]), content
    )


def as_html(shown: Shown) -> str:
    """What a block gave, as HTML."""
    if shown.missing is not None:
        return f'<p class="not-run">Not run here: {html.escape(shown.missing)} is not installed.</p>'
    text = shown.text.rstrip()
    parts = [f'<pre class="printed" tabindex="0"><code>{html.escape(text)}</code></pre>'] if text else []
    return "".join([*parts, *(f'<div class="drawn" tabindex="0">{one}</div>' for one in shown.pictures)])


def site_link(found: re.Match[str], origin: Path, place: str) -> str:
    """A link of a file of the project, as it must read on the page that the file became."""
    target, anchor = found[1], found[2] or ""
    if not target:
        return found[0]
    file = (origin.parent / target).resolve()
    if ROOT not in file.parents:
        return found[0]
    path = file.relative_to(ROOT).as_posix()
    if path == "README.md":
        path = "docs/index.md"
    homes = {source: home for home, source in ELSEWHERE.items()}
    goal = homes.get(path) or path.removeprefix("docs/")
    if file.is_dir():  # a site has no folders to look into; that page says what lies where
        goal, anchor = "architecture.md", ""
    return f"]({os.path.relpath(goal, os.path.dirname(place) or '.')}{anchor})"


def settings_table() -> str:
    """Every setting: what it means, and its value in each preset, from the one place that says so."""
    from diffor.estimators.settings import NAMES, Settings

    order = ("fast", "balanced", "accurate", "paper")
    assert set(order) == set(NAMES)
    lines = [f"| setting | meaning | {' | '.join(order)} | on an encoder |", "|---" * (len(order) + 3) + "|"]
    for one in sorted(fields(Settings), key=lambda one: one.name):
        known = one.metadata
        values = [code(known["presets"][name]) for name in order]
        encoded = "" if known["encoded"] is None else code(known["encoded"])
        meaning = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", known["meaning"]).replace("``", "`")
        lines.append(f"| `{one.name}` | {meaning} | {' | '.join(values)} | {encoded} |")
    return "\n".join(lines)


def code(value: Any) -> str:
    """A value as code in a table; none at all where it is empty."""
    if value is None or (isinstance(value, (dict, tuple)) and not value):
        return "none"
    words = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{words}`"
