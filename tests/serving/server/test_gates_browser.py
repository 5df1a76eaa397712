"""The page of an attacker, in a real browser, beside a real server on the visitor's machine."""

import http.server
import threading

import pytest

pytest.importorskip("fastapi")
ATTACK = """async ([address, row]) => {
  const tell = async (name, ask) => {
    try {
      const answer = await ask();
      return [name, answer.type, answer.type === "opaque" ? null : await answer.text()];
    } catch (error) {
      return [name, "failed", null];
    }
  };
  const body = JSON.stringify({ rows: [row] });
  return [
    await tell("read", () => fetch(address + "/model")),
    await tell("ask", () => fetch(address + "/predict", { method: "POST", body, headers: { "Content-Type": "application/json" } })),
    await tell("ask blindly", () => fetch(address + "/predict", { method: "POST", mode: "no-cors", body })),
    await tell("send a form", () => { const form = new FormData(); form.append("rows", body); return fetch(address + "/predict", { method: "POST", mode: "no-cors", body: form }); }),
  ];
}"""  # noqa: E501


class Evil(http.server.BaseHTTPRequestHandler):
    """A page of a stranger."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>kittens</title><iframe></iframe>")

    def log_message(self, *given):
        pass


@pytest.fixture(scope="module")
def evil():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def count(served, path="/predict"):
    """Requests for rows that were answered."""
    with served.client() as client:
        lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith(f'diffor_requests_total{{path="{path}",status="200"}}')]
    return int(found[0].split()[-1]) if found else 0


def test_a_strangers_page_neither_reads_nor_asks(browser, served, evil, row):
    before = count(served)
    page = browser.new_page()
    page.goto(f"http://kittens.example:{evil}/")
    told = page.evaluate(ATTACK, [served.address, row])
    page.close()
    assert [name for name, *_ in told] == ["read", "ask", "ask blindly", "send a form"]
    assert [text for *_, text in told] == [None] * 4  # nothing was read
    assert count(served) == before  # and the model was not asked


def test_a_name_that_is_let_point_here_is_not_answered(browser, served):
    port = served.address.rsplit(":", 1)[1]
    page = browser.new_page()
    answer = page.goto(f"http://rebound.example:{port}/model")
    text = page.inner_text("body")
    page.close()
    assert answer.status == 421
    assert "the header Host is 'rebound.example" in text
    assert "columns" not in text


def test_the_page_cannot_be_framed_and_runs_no_script_of_others(browser, served, evil):
    page = browser.new_page()
    page.goto(f"http://kittens.example:{evil}/")
    page.evaluate("(address) => { document.querySelector('iframe').src = address; }", served.address)
    page.wait_for_timeout(500)
    framed = page.frames[1]
    assert framed.url != served.address + "/"
    page.goto(served.address)
    page.wait_for_selector("#row-form")
    page.evaluate(
        """() => { const script = document.createElement('script'); script.textContent = 'window.isTaken = true';
                   document.body.append(script);
                   const image = document.createElement('div');
                   image.innerHTML = '<img src="data:," onerror="window.isTaken = true">';
                   document.body.append(image); }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.isTaken === undefined")
    page.close()
