"""What several tests of the server share: a server of a model of images, and a browser."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Names of an attacker are this machine, as the attacker's name server would say.
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP *.example 127.0.0.1"]  # fmt: skip


@pytest.fixture(scope="session")
def flats():
    """Rows with numbers, a missing value and categories, and their prices."""
    from serving import make_flats

    return make_flats()


@pytest.fixture(scope="session")
def row(flats):
    """The first of them as clients send it."""
    from serving import as_rows

    return as_rows(flats[0])[0]


@pytest.fixture(scope="session")
def served_faces(face_model, tmp_path_factory):
    """A process that serves a model of images."""
    from serving import serve

    folder = tmp_path_factory.mktemp("served") / "faces"
    face_model.save(folder)
    with serve(folder) as running:
        yield running


@pytest.fixture(scope="module")  # while it runs, no test can start an event loop
def browser():
    """A Chromium, to look at the page with."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium to look at the page with")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
