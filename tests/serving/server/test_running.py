"""How a server ends: in steps, so that no request is lost."""

import os
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from serving import serve, serve_here, told, until

pytest.importorskip("uvicorn")

from diffor.cli.main import main
from diffor.serving.server.running import bind


def test_a_server_that_is_to_end_says_so_and_answers_on(flat_model, row):
    with serve(flat_model[0], "--drain-seconds", "600") as running, running.client() as client:
        assert client.get("/ready").json()["status"] == "ready"
        assert "connection" not in client.get("/health").headers
        running.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/ready").status_code == 503)
        assert told(client.get("/ready")) == "the server must be running, but it is stopping; ask another one"
        answer = client.post("/predict", json={"rows": [row]})
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert running.stop() == 0  # a second signal does not wait


def is_closed(port):
    with socket.socket() as other:
        return other.connect_ex(("127.0.0.1", port)) != 0


def test_who_connected_before_the_end_is_answered_after_it(flat_model, monkeypatch):
    monkeypatch.setattr("diffor.serving.server.running.LAST_SECONDS", 600)
    with serve_here(flat_model[1], drain_seconds=0.1) as here:
        with socket.create_connection(("127.0.0.1", here.port), timeout=60) as late:
            httpx.get(here.address + "/health")  # it has started
            here.server.handle_exit(signal.SIGTERM, None)
            until(lambda: is_closed(here.port))
            late.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # as nobody else could answer
            assert late.recv(1000).startswith(b"HTTP/1.1 200")
        here.thread.join(60)
        assert not here.thread.is_alive()


def test_servers_that_share_a_socket_lose_no_request(flat_model, row):
    listening = bind("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    command = [sys.executable, "-m", "diffor", "serve", str(flat_model[0]), "--fd", str(listening.fileno()),
               "--drain-seconds", "1"]  # fmt: skip
    codes, failures, is_over = [], [], threading.Event()

    def start():
        process = subprocess.Popen(command, pass_fds=[listening.fileno()], stdout=subprocess.PIPE, text=True)
        assert f"on {address}/" in process.stdout.readline()
        return process

    def ask_on():
        with httpx.Client(base_url=address, timeout=60) as client:
            try:
                while not is_over.is_set():
                    codes.append(client.post("/predict", json={"rows": [row]}).status_code)
            except httpx.HTTPError as error:
                failures.append(repr(error))

    first = start()
    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        second = start()
        first.terminate()
        assert first.wait(60) == 0
        n_before = len(codes)
        until(lambda: len(codes) >= n_before + 20 or failures)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        second.terminate()
    assert second.wait(60) == 0
    listening.close()
    assert failures == []
    assert set(codes) == {200}


def test_what_is_no_listening_socket_is_refused(flat_model, capsys):
    for number, reason in ((9999, "Bad file descriptor"), (None, "it does not listen")):
        with socket.socket() as other:
            given = other.fileno() if number is None else number
            assert main(["serve", str(flat_model[0]), "--fd", str(given)]) == 2
            error = capsys.readouterr().err
            assert f"--fd must be the number of a socket that listens, but got {given}" in error
            assert reason in error
            assert number is not None or os.fstat(given)  # and not closed for its owner


def test_a_socket_that_others_reach_needs_a_token_too(flat_model, capsys, monkeypatch):
    monkeypatch.delenv("DIFFOR_TOKEN", raising=False)
    listening = bind("0.0.0.0", 0)
    number = os.dup(listening.fileno())
    listening.close()
    assert main(["serve", str(flat_model[0]), "--fd", str(number)]) == 2
    assert "a host that other machines reach needs a token" in capsys.readouterr().err


def test_room_is_made_for_connections_where_files_are_few(flat_model):
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 2000)); " \
              "from diffor.cli.main import main; sys.exit(main(sys.argv[1:]))"  # fmt: skip
    command = [sys.executable, "-c", limited, "serve", str(flat_model[0]), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = int(process.stdout.readline().split("/ (API")[0].rsplit(":", 1)[1])
    waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(250)]
    try:
        for _ in range(3):
            assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    finally:
        for connection in waiting:
            connection.close()
        process.terminate()
        errors = process.communicate(timeout=60)[1]
    assert errors == ""
