"""The page in a real browser, in front of a real server: what people see, do, and are told when it goes wrong."""

import contextlib
import csv

import numpy as np
import pandas as pd
import pytest
from serving import QUICK, make_flats, serve

from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.estimators.values import N_RANGES

pytest.importorskip("fastapi")


@contextlib.contextmanager
def opened(browser, address, allow_errors=False, **settings):
    """A page that has asked for the model; anything that it complains about to developers is an error."""
    context = browser.new_context(reduced_motion="reduce", **settings)
    page = context.new_page()
    page.set_default_timeout(30_000)
    complaints, hosts = [], set()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(address)
    yield page
    context.close()
    assert hosts == {address.split("/")[2]}  # nothing from anywhere else
    assert allow_errors or complaints == []


@pytest.fixture
def page(browser, served):
    with opened(browser, served.address) as page:
        page.wait_for_selector("#whatif .picture svg")
        yield page


def until(page, condition):
    """Wait for something to be so; the page's own rules forbid that it is asked in a script."""
    for _ in range(400):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not happen within twenty seconds")


def shown(page, selector):
    return page.locator(selector).inner_text()


def distance(page, expected):
    """How far the point that is shown is from another."""
    return abs(float(shown(page, "#answer .point")) - expected)


def field(page, name):
    return page.get_by_label(name, exact=True)


def give_file(page, path, content=None):
    """Put a file, or several, among the many rows."""
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    page.get_by_role("tab", name="Many rows").click()
    page.set_input_files("#batch-file", path)


def rows_back(page):
    """What comes back of it."""
    page.wait_for_selector("#many .result a")
    with page.expect_download() as download:
        page.locator("#many .result a").click()
    with open(download.value.path(), newline="") as file:
        return list(csv.DictReader(file))


def predictions(rows):
    return [float(row["prediction"]) for row in rows]


def test_the_page_opens_with_an_answer_and_its_pictures(page):
    assert page.title() == "the target — flats"
    assert [label.inner_text() for label in page.locator("#fields label").all()] == ["size", "rooms", "city"]
    assert page.locator("#column-2 option").all_inner_texts()[1:] == ["Bern", "Oslo", "Rome"]
    page.wait_for_selector("#increments .picture svg")
    for card in ("#answer", "#increments", "#whatif"):
        assert page.locator(f"{card} .picture svg").get_attribute("aria-label")
    assert page.locator("#increments .picture rect.shade").count() == 2 * N_RANGES
    assert not page.locator("#chain").is_visible(), "this model has no chain to follow"
    assert "90 % likely: " in page.locator("#answer .interval").inner_text()


def test_what_is_filled_in_is_predicted(page, flat_model):
    row = {"size": 33.5, "rooms": 4, "city": "Rome"}
    field(page, "size").fill("33.5")
    field(page, "rooms").fill("4")
    with page.expect_response("**/predict"):
        field(page, "city").select_option("Rome")
    page.get_by_role("button", name="Predict").click()
    expected = flat_model[1].predict(make_flats()[0].head(1).assign(**row))[0]
    until(page, lambda: distance(page, expected) <= 0.51)
    before = page.locator("#answer .picture path.line").get_attribute("d")
    field(page, "size").fill("110")  # the answer follows without a click
    until(page, lambda: distance(page, expected) > 1)
    assert page.locator("#answer .picture path.line").get_attribute("d") != before


def test_an_empty_field_is_not_known_and_a_wrong_one_says_so(page, flat_model):
    field(page, "size").fill("")
    table = make_flats()[0].tail(1).assign(size=float("nan"), rooms=float(field(page, "rooms").input_value()),
                                           city="Bern")  # fmt: skip
    expected = flat_model[1].predict(table)[0]
    until(page, lambda: distance(page, expected) <= 0.51)
    field(page, "rooms").fill("")
    field(page, "rooms").press_sequentially("1e")
    page.get_by_role("button", name="Predict").click()
    assert page.locator("#column-1-problem").inner_text() == ("This must be a number, or empty where it is not known.")
    assert field(page, "rooms").get_attribute("aria-invalid") == "true"
    assert page.get_by_role("alert").first.inner_text() == "Some fields are not right yet; they say why."


def test_the_chain_is_stepped_through_by_buttons_keys_and_slider(browser, served_chain):
    with opened(browser, served_chain.address) as page:
        step_through(page)


def step_through(page):
    page.wait_for_selector("#chain[data-step]")
    for card in ("#answer", "#increments", "#chain", "#whatif"):
        assert page.locator(f"{card} .picture svg").get_attribute("aria-label")
    steps = int(field(page, "Step of the chain").get_attribute("max")) + 1
    words = page.locator("#chain .words")
    assert words.inner_text().startswith(f"Step 1 of {steps}, time 1000, 100 % noise")
    page.get_by_role("button", name="Next step").click()
    assert words.inner_text().startswith(f"Step 2 of {steps}")
    assert page.locator("#chain circle.grain").count() == 64
    page.keyboard.press("ArrowRight")
    assert words.inner_text().startswith(f"Step 3 of {steps}")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("End")
    assert words.inner_text().startswith(f"Step {steps} of {steps}, time 1,")
    assert page.get_by_role("button", name="Next step").get_attribute("aria-disabled") == "true"
    field(page, "Step of the chain").focus()
    page.keyboard.press("Home")
    assert words.inner_text().startswith("Step 1 of")
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector('#chain[data-step="2"]')
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").is_visible()


def test_the_distribution_follows_the_slider(page, flat_model):
    before = page.locator("#whatif path.line").last.get_attribute("d")
    slider = field(page, "Value of the changed column")
    with page.expect_response("**/predict"):
        slider.evaluate("(slider) => { slider.value = 1000; slider.dispatchEvent(new Event('input')); }")
    high = flat_model[1].inputs_.columns[0].range[1]
    until(page, lambda: shown(page, "#whatif .words").startswith(f"With size = {high:g}"))
    assert page.locator("#whatif path.line").last.get_attribute("d") != before
    page.get_by_role("button", name="Use this value").click()
    assert float(field(page, "size").input_value()) == pytest.approx(high)
    field(page, "Change").select_option("rooms")
    until(page, lambda: shown(page, "#whatif .words").startswith("With rooms"))
    assert shown(page, "#whatif .words").endswith(f"the answer is {shown(page, '#answer .point')}.")
    field(page, "rooms").fill("40")  # beyond the slider, which shows the nearest
    until(page, lambda: shown(page, "#whatif .words").startswith("With rooms = 5,"))


def test_a_file_comes_back_with_predictions(page, flat_model, tmp_path):
    table = make_flats(n=230, seed=3)[0].assign(id=range(230))
    give_file(page, tmp_path / "new.csv", table.to_csv(index=False))
    rows = rows_back(page)
    assert page.locator("#many .words").inner_text() == "230 rows are answered. Not used: id."
    assert page.locator("#many .result a").inner_text() == "Download new-predicted.csv"
    assert list(rows[0])[4:] == ["prediction", "q0.05", "q0.25", "q0.5", "q0.75", "q0.95", "low", "high"]
    assert predictions(rows) == pytest.approx(flat_model[1].predict(table.drop(columns="id")).tolist(), rel=1e-5)
    assert [row["id"] for row in rows] == [str(place) for place in range(230)]
    assert rows[3]["size"] == ""


def test_a_file_that_is_wrong_is_refused_with_the_place(page, tmp_path):
    for text, message in (
        ("", "must have a header and at least one row, but it has none."),
        ("size,rooms\n1,2\n", "but city is missing; its columns are size, rooms."),
        ("size,rooms,city\n1,2,Oslo\n1,two,Oslo\n", "Row 2, column rooms, must be a number, but got “two”"),
        ("size,rooms,city\n1,2,Oslo\n1,2\n", "Row 2 must have 3 cells, but it has 2."),
        ("size,rooms,city\n1,2,Zürich\n".encode("latin-1"), "must be text in UTF-8, but it is in another encoding"),
        (b"size,rooms,city\n1,2,\0\0\n", "wrong.csv must be text, but it holds NUL characters"),
    ):
        give_file(page, tmp_path / "wrong.csv", text)
        until(page, lambda message=message: message in shown(page, "#many [role=alert]"))
        assert page.locator("#many .result a").count() == 0


def test_files_of_other_programs_are_read_too(page, flat_model, tmp_path):
    text = '\ufeffcity;rooms;size\r\n"Os""lo;x";2;"12.5"\r\n\r\nRome;NA;nan\r\n'
    expected = flat_model[1].predict(
        make_flats()[0].head(2).assign(size=[12.5, None], rooms=[2.0, None], city=['Os"lo;x', "Rome"])
    )
    for content in (text.encode(), text[1:].encode("utf-16")):
        give_file(page, tmp_path / "sheet.csv", content)
        rows = rows_back(page)
        assert rows[0]["city"] == 'Os"lo;x'
        assert predictions(rows) == pytest.approx(expected.tolist(), rel=1e-5)


def test_formulas_of_strangers_come_back_as_text(page, tmp_path):
    cities = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "-7", "Oslo", "a=b"]
    give_file(page, tmp_path / "new.csv", "size,rooms,city\n" + "".join(f'1,2,"{city}"\n' for city in cities))
    escaped = ["'=1+1", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "-7", "Oslo", "a=b"]
    assert [row["city"] for row in rows_back(page)] == escaped


@pytest.fixture(scope="module")
def served_wide(tmp_path_factory):
    """A server of a model of thirty columns, of which the last two matter, with rows to start from."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(300, 28)), columns=[f"noise_{place}" for place in range(28)])
    table["main"] = random.normal(size=300)
    table["kind"] = random.choice(["red", "green"], 300)
    y = 50 + 10 * table["main"] + 6 * (table["kind"] == "red")
    folder = tmp_path_factory.mktemp("wide")
    model = DiffoRRegressor("fast", **{**QUICK, "max_steps": 150}).fit(table, y)
    model.save(folder / "wide")
    table.loc[1, "main"] = np.nan
    table.head(30).to_csv(folder / "rows.csv", index=False)
    with serve(folder / "wide", "--examples", str(folder / "rows.csv")) as running:
        yield running, model, table, folder / "rows.csv"


@pytest.mark.parametrize("size", [(1280, 800), (360, 740)])
def test_of_many_columns_those_that_matter_come_first_and_the_button_stays(browser, served_wide, size):
    running, model, table, rows = served_wide
    with opened(browser, running.address, viewport={"width": size[0], "height": size[1]}) as page:
        page.wait_for_selector("#whatif .picture svg")
        assert [label.inner_text() for label in page.locator("#fields label").all()][:2] == ["main", "kind"]
        assert page.locator("#fields label").count() == 12
        assert shown(page, "#further summary") == "18 more columns"
        button = page.get_by_role("button", name="Predict")
        box = button.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= size[1]
        field(page, "Start from").select_option("1")
        until(page, lambda: distance(page, model.predict(table.head(1))[0]) <= 0.2)
        field(page, "Start from").select_option("2")
        assert field(page, "main").input_value() == ""  # not known
        give_file(page, rows)
        page.wait_for_selector("#many .result a")
        header = page.locator("#many th").all_text_contents()
        assert (header[0], header[8]) == ("prediction", "noise_0")
        assert shown(page, "#many .sideways").startswith("Scroll sideways for more columns")
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_tabs_are_changed_by_keys_and_every_control_has_a_name(page):
    page.get_by_role("tab", name="One row").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Many rows").get_attribute("aria-selected") == "true"
    assert page.locator("#many").is_visible()
    assert not page.locator("#one").is_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('input, select, button')].map((one) => [one, one.labels?.length ||
             one.getAttribute('aria-label') || one.textContent.trim()]).filter((pair) => !pair[1]).length"""
    )
    assert nameless == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_words_can_be_read(browser, served, scheme):
    with opened(browser, served.address, viewport={"width": 360, "height": 740}, color_scheme=scheme) as page:
        page.wait_for_selector("#whatif .picture svg")
        page.wait_for_selector("#increments .picture svg")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        colours = page.evaluate(
            """() => ['.point', '.interval', '.lead', 'button.primary', '.hint'].map((name) => {
                 const style = getComputedStyle(document.querySelector(name));
                 let behind = document.querySelector(name);
                 while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
                 return [style.color, getComputedStyle(behind).backgroundColor]; })"""
        )
        assert min(contrast(*pair) for pair in colours) >= 4.5


def contrast(first, second):
    """The ratio of two colours' luminances, as accessibility guidelines define it."""

    def luminance(colour):
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("server", "further"), [("served", []), ("served_chain", ["POST /trajectory"])])
def test_the_documents_are_a_page_and_can_be_tried(browser, server, further, request):
    with opened(browser, request.getfixturevalue(server).address + "/docs", allow_errors=True) as page:
        page.wait_for_selector(".path")
        paths = ["POST /predict", *further, "GET /model", "GET /health", "GET /ready"]
        assert page.locator(".path h2").all_inner_texts() == paths
        assert '"city":"Bern"' in page.locator(".path pre").first.inner_text()
        for body, told in ((None, '"predictions"'), ('{"rows": [{}]}', '"status": 422'), ("{", '"status": null')):
            if body is not None:
                field(page, "What to send to /predict").fill(body)
            page.get_by_role("button", name="Send").first.click()
            until(page, lambda told=told: told in page.locator(".try code").first.inner_text())


def test_token_and_silence(browser, flat_model):
    token = "a-token-of-sixteen-signs"
    with serve(flat_model[0], "--token", token) as running, opened(browser, running.address, True) as page:
        field(page, "Token").fill("wrong")
        page.keyboard.press("Enter")
        until(page, lambda: shown(page, "#token-problem"))
        assert "but it carries another" in page.locator("#token-problem").inner_text()
        field(page, "Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#whatif .picture svg")
        page.wait_for_selector("#increments .picture svg")
        running.stop()
        page.get_by_role("button", name="Predict").click()
        until(page, lambda: shown(page, "#trouble"))
        assert page.locator("#trouble").inner_text() == "The server cannot be reached. Is it still running?"


def test_an_image_is_dropped_and_many_are_answered(browser, served_faces, face_model, faces):
    paths = faces[1][:10]
    expected = face_model.predict(paths)
    with opened(browser, served_faces.address) as page:
        page.wait_for_selector("#workspace:not([hidden])")
        page.get_by_role("button", name="Predict").click()
        assert shown(page, "#trouble") == "Choose an image first."
        page.set_input_files("#picture", paths[0])
        page.wait_for_selector("#increments .picture svg")
        assert distance(page, expected[0]) <= 0.51
        assert not page.locator("#whatif").is_visible()
        give_file(page, paths)
        rows = rows_back(page)
    assert [row["image"] for row in rows] == [path.rsplit("/", 1)[1] for path in paths]
    assert predictions(rows) == pytest.approx(expected.tolist(), rel=1e-5)


def test_grades_are_bars_and_their_names_are_the_scale(browser, tmp_path):
    table, price = make_flats()
    names = np.array(["low", "mid", "high"])[np.digitize(price, [150, 280])]
    model = DiffoRClassifier("fast", grades=["low", "mid", "high"], **QUICK).fit(table, names)
    model.save(tmp_path / "graded")
    with serve(tmp_path / "graded") as running, opened(browser, running.address) as page:
        page.wait_for_selector("#whatif .picture svg")
        page.wait_for_selector("#increments .picture svg")
        assert shown(page, "#answer .point") in ("low", "mid", "high")
        assert page.locator("#answer .picture rect.track").count() == 3
        ticks = page.locator("#increments .picture text.tick").all_text_contents()
        assert ticks[-3:] == ["low", "mid", "high"]
        give_file(page, tmp_path / "new.csv", make_flats(n=5, seed=4)[0].to_csv(index=False))
        page.wait_for_selector("#many .result a")
        header = page.locator("#many th.new").all_text_contents()
    assert header == ["prediction", "p_low", "p_mid", "p_high", "low", "high"]


def test_a_row_with_a_limit_of_its_own_has_a_range_of_its_own(browser, tmp_path):
    table, price = make_flats()
    model = DiffoRRegressor("fast", limit="share", **QUICK).fit(table, price, upper=np.full(len(price), 500.0))
    model.save(tmp_path / "shares")
    with serve(tmp_path / "shares") as running, opened(browser, running.address, allow_errors=True) as page:
        until(page, lambda: "a number above 0" in page.locator("body").inner_text())  # it is not known yet
        field(page, "upper").fill("40")
        page.wait_for_selector("#increments .picture svg")
        assert page.locator("#trouble").inner_text() == ""
        ticks = page.locator("#increments .picture text.tick").all_text_contents()
        assert max(float(tick) for tick in ticks if tick) == 40
