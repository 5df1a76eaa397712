"""Models passed on: folders with a card, and a real upload to a server on this machine that speaks as the hub does."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRRegressor
from diffor.estimators.hub import HubError, is_repository
from diffor.training.checkpoint import CheckpointError

pytest.importorskip("huggingface_hub", reason="huggingface_hub is an optional extra")

X = pd.DataFrame({"size": np.linspace(0, 1, 60), "city": ["Oslo", "Rome", "Bern"] * 20})
Y = 10 * X["size"].to_numpy()
TINY: dict[str, Any] = {"preset": "fast", "prior": None, "max_steps": 5, "random_state": 0, "verbose": 0}
SHA = hashlib.sha1(b"the only commit").hexdigest()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> DiffoRRegressor:
    return DiffoRRegressor(**TINY, checkpoint_dir=tmp_path_factory.mktemp("secret_place")).fit(X, Y)


# --- folders ---


def test_a_saved_folder_reads_back_to_equal_answers_without_huggingface_hub(
    model: DiffoRRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save_pretrained(tmp_path / "model", metrics={"mae": 1.25})
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "README.md", "config.json", "model.safetensors"]  # fmt: skip
    assert "secret_place" not in (tmp_path / "model" / "config.json").read_text()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    again = DiffoRRegressor.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.data_summary_ == model.data_summary_


def test_an_existing_folder_is_replaced_only_if_asked_and_only_if_it_is_a_model(
    model: DiffoRRegressor, tmp_path: Path
) -> None:
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(FileExistsError, match="exists already: choose another folder or pass overwrite=True"):
        model.save_pretrained(tmp_path / "model", name="other")
    model.save_pretrained(tmp_path / "model", overwrite=True, name="Another name")
    assert "# Another name" in (tmp_path / "model" / "README.md").read_text()
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="is not a DiffoR model, so it is not replaced"):
        model.save_pretrained(tmp_path / "mine", overwrite=True)
    with pytest.raises(TypeError, match="colour"):
        model.save_pretrained(tmp_path / "third", colour="red")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "model"]


@pytest.mark.parametrize("place", ["./nowhere", "/no/such/folder", "a/b/c"])
def test_what_is_neither_folder_nor_repository_is_told(place: str) -> None:
    assert not is_repository(place)
    with pytest.raises(CheckpointError, match="is neither a folder nor the name of a repository, as 'name/model' is"):
        DiffoRRegressor.from_pretrained(place)


def test_a_missing_package_names_its_extra(model: DiffoRRegressor, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'needs the package huggingface_hub: pip install "diffor\[hub\]"'):
        model.push_to_hub("me/model")


def test_a_model_that_is_not_fitted_is_refused_before_a_repository_is_made() -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        DiffoRRegressor().push_to_hub("me/model")


# --- the hub, as a server on this machine ---


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload and a download need; files arrive in the commit itself."""

    def log_message(self, *arguments: Any) -> None:
        pass

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        server.requests.append((self.path, self.headers.get("Authorization")))
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer(401, {"error": "Invalid credentials"})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            return self.answer(200, {"url": f"http://{self.headers['Host']}/{asked['organization']}/{asked['name']}"})
        if self.path == "/api/validate-yaml":
            return self.answer(200, {"warnings": [], "errors": []})
        if "/preupload/" in self.path:
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                     for file in json.loads(body)["files"]]  # fmt: skip
            return self.answer(200, {"files": files})
        assert "/commit/" in self.path, self.path
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        place = f"http://{self.headers['Host']}/me/model/commit/{SHA}"
        return self.answer(200, {"commitUrl": place, "commitOid": SHA, "success": True})

    def do_GET(self) -> None:
        server: Any = self.server
        server.requests.append((self.path, self.headers.get("Authorization")))
        repository, _, rest = self.path.partition("/me/model")
        if not rest and not self.path.endswith("/me/model"):
            return self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        if repository == "/api/models":
            siblings = [{"rfilename": name} for name in server.files]
            if "/tree/" in rest:
                files = [{"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                         for name, content in server.files.items()]  # fmt: skip
                return self.answer(200, files)
            return self.answer(200, {"id": "me/model", "sha": SHA, "siblings": siblings, "private": False,
                                     "tags": [], "downloads": 0})  # fmt: skip
        content = server.files.get(rest.rpartition("/")[2].partition("?")[0])
        if content is None:
            return self.answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound", X_Repo_Commit=SHA)
        mark = f'"{hashlib.sha1(content).hexdigest()}"'
        return self.answer(200, content, ETag=mark, X_Repo_Commit=SHA)

    def do_HEAD(self) -> None:
        self.do_GET()


@pytest.fixture
def hub() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    server.files, server.requests = {}, []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask_hub(script: str, endpoint: str, home: Path, **environment: str) -> str:
    """What a process prints that knows no other hub than this one (huggingface_hub reads its place when imported)."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("HF_") and "proxy" not in name.lower()
    }
    kept |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    done = subprocess.run([sys.executable, "-c", script], env=kept, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


ROUND_TRIP = """
import json, sys
import numpy as np, pandas as pd
from diffor import DiffoRRegressor
from diffor.estimators.hub import HubError

def refused(call):
    try:
        call()
    except HubError as error:
        return str(error)

folder, table = {folder!r}, pd.read_json({table!r})
model = DiffoRRegressor.load(folder)
answers = {{}}
answers["wrong token"] = refused(lambda: model.push_to_hub("me/model", token="hf_wrong"))
answers["commit"] = model.push_to_hub("me/model", token="hf_right", metrics={{"mae": 1.5}}, license="mit")
again = DiffoRRegressor.from_pretrained("me/model")
answers["equal"] = bool((again.predict(table) == model.predict(table)).all())
answers["absent"] = refused(lambda: DiffoRRegressor.from_pretrained("me/other"))
answers["offline copy"] = DiffoRRegressor.from_pretrained("me/model", local_files_only=True).seed_ == model.seed_
print(json.dumps(answers))
"""


def test_a_model_is_uploaded_to_a_hub_and_fetched_again(model: DiffoRRegressor, hub: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    X.to_json(tmp_path / "rows.json")
    endpoint = f"http://127.0.0.1:{hub.server_address[1]}"
    script = ROUND_TRIP.format(folder=str(tmp_path / "model"), table=str(tmp_path / "rows.json"))
    answers = json.loads(ask_hub(script, endpoint, tmp_path / "home").splitlines()[-1])
    rule = f"push_to_hub('me/model') must reach {endpoint} and be allowed to, but "
    assert answers["wrong token"].startswith(rule)
    assert answers["wrong token"].endswith("; log in with `hf auth login` or pass token=")
    assert answers["commit"] == f"{endpoint}/me/model/commit/{SHA}"
    assert set(hub.files) == {"README.md", "config.json", "model.safetensors"}
    assert b'license: "mit"' in hub.files["README.md"]
    assert b"secret_place" not in hub.files["config.json"]
    assert (answers["equal"], answers["offline copy"]) == (True, True)
    assert "me/other" in answers["absent"]
    assert answers["absent"].endswith("; check the name, or pass a folder")


def test_without_a_network_pushing_and_fetching_say_so(model: DiffoRRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    script = f"""
from diffor import DiffoRRegressor
for call in (lambda: DiffoRRegressor.load({str(tmp_path / "model")!r}).push_to_hub("me/model", token="hf_right"),
             lambda: DiffoRRegressor.from_pretrained("me/model")):
    try:
        call()
    except OSError as error:
        print(type(error).__name__, error)
"""
    lines = ask_hub(script, "http://127.0.0.1:9", tmp_path / "home", HF_HUB_OFFLINE="1").splitlines()
    assert [line.split()[0] for line in lines] == [HubError.__name__] * 2
    assert lines[0].startswith("HubError push_to_hub('me/model') must reach http://127.0.0.1:9 and be allowed to, but")
    assert lines[1].startswith("HubError from_pretrained('me/model') must reach http://127.0.0.1:9")
