"""Pages as Chromium lays them out."""

import re
import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def measured(folder, pages, widths, expression):
    """What a JavaScript expression of ``inner``, a page's document, gives for each page at each width, as strings."""
    for name, html in pages.items():
        (folder / f"{name}.html").write_text(html)
    frames = "".join(f'<iframe src="{name}.html" style="width:{width}px;height:900px"></iframe>'
                     for width in widths for name in pages)  # fmt: skip
    script = (
        "<script>onload = () => { document.title = [...document.querySelectorAll('iframe')].map((frame) => {"
        f"const inner = frame.contentDocument; return {expression}; }}).join(';'); }}</script>"
    )
    (folder / "frames.html").write_text(f"<!DOCTYPE html><title>none</title>{frames}{script}")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
               f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
               (folder / "frames.html").as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return re.search(r"<title>(.*?)</title>", done.stdout).group(1).split(";")
