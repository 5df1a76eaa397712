"""The files in deploy/ fit the program: its options, its paths, its figures, and each other."""

import asyncio
import configparser
import json
import re
from pathlib import Path

import pytest
from serving import make_flats

pytest.importorskip("yaml")
pytest.importorskip("fastapi")

import yaml

import diffor
from diffor.cli.main import _make_parser
from diffor.serving.server.application import OPEN
from diffor.serving.server.loaded import Identity, Loaded, Service
from diffor.serving.server.metrics import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def read(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def unit(name):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(DEPLOY / name)
    return parser


def serve_options(words):
    return _make_parser()[0].parse_args(["serve", *words])


def containers():
    (deployment, _), (inference,) = read("kubernetes.yaml"), read("kserve.yaml")
    return [*deployment["spec"]["template"]["spec"]["containers"], *inference["spec"]["predictor"]["containers"]]


def test_every_start_is_one_that_the_program_understands():
    command = json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE).group(1))
    assert re.search(r'^ENTRYPOINT \["diffor", "serve"\]$', DOCKERFILE, re.MULTILINE)
    started = [serve_options(command), *(serve_options(one["args"]) for one in containers())]
    assert {options.host for options in started} == {"0.0.0.0"}
    assert all(options.drain_seconds > 0 for options in started)
    service = unit("diffor.service")["Service"]["ExecStart"].split()
    assert service[1] == "serve"
    assert serve_options(service[2:]).fd == 3


def test_those_who_wait_for_an_end_wait_long_enough():
    (deployment, _) = read("kubernetes.yaml")
    pod = deployment["spec"]["template"]["spec"]
    options = serve_options(pod["containers"][0]["args"])
    assert pod["terminationGracePeriodSeconds"] > options.drain_seconds + options.max_seconds
    command = serve_options(json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE).group(1)))
    (compose,) = read("compose.yaml")
    grace = int(compose["services"]["diffor"]["stop_grace_period"].removesuffix("s"))
    assert grace > command.drain_seconds + command.max_seconds
    assert int(unit("diffor.service")["Service"]["TimeoutStopSec"]) > command.max_seconds


def test_probes_ask_what_is_open_to_all():
    found = re.findall(r"path: (/\w+)", (DEPLOY / "kubernetes.yaml").read_text() + (DEPLOY / "kserve.yaml").read_text())
    assert set(found) == OPEN
    assert "/health" in re.search(r"HEALTHCHECK.*\n.*CMD (.*)", DOCKERFILE).group(1)


def test_nothing_runs_as_root_or_without_a_token():
    assert re.search(r"^USER 10001$", DOCKERFILE, re.MULTILINE)
    assert DOCKERFILE.index("USER 10001") < DOCKERFILE.index("ENTRYPOINT")
    (deployment, _) = read("kubernetes.yaml")
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 10001
    assert [next(entry for entry in one["env"] if entry["name"] == "DIFFOR_TOKEN")["valueFrom"] for one in containers()]
    (compose,) = read("compose.yaml")
    assert "DIFFOR_TOKEN" in compose["services"]["diffor"]["environment"]
    assert all(port.startswith("127.0.0.1:") for one in compose["services"].values() for port in one["ports"])


def test_files_that_are_named_are_there():
    (compose,) = read("compose.yaml")
    mounted = [volume.split(":")[0] for volume in compose["services"]["prometheus"]["volumes"]]
    assert all((DEPLOY / name).exists() for name in mounted)
    assert (DEPLOY / "../deploy/Dockerfile").resolve() == DEPLOY / "Dockerfile"
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text()
    assert all(f"!{name}" in allowed for name in copied)
    (prometheus,) = read("prometheus.yml")
    assert prometheus["rule_files"] == ["alerts.yml"]
    assert prometheus["scrape_configs"][0]["static_configs"][0]["targets"] == ["diffor:8000"]
    images = {one["image"] for one in containers()}
    assert images == {f"diffor-serve:{diffor.__version__}"}


def test_alerts_and_documents_name_figures_that_there_are(flat_model):
    from diffor.serving.server.application import figures
    from diffor.serving.server.connections import Guard, Places
    from diffor.serving.server.description import Limits

    model, metrics, limits = flat_model[1], Metrics(), Limits()
    loaded = Loaded(model, None, limits, 0, {}, Identity("flats"), metrics)
    table = make_flats(n=600)[0]
    loaded.drift.add(table, model.predict_distribution(table), None)
    service = Service(loaded, limits, metrics)
    service.guard = Guard(Places())
    metrics.requests["/predict", "200"] += 1
    metrics.refusals["busy"] += 1
    metrics.n_rows += 1
    told = set(re.findall(r"^# TYPE (\w+)", figures(service), re.MULTILINE))
    asyncio.run(service.close())
    in_alerts = set(re.findall(r"diffor_\w+", (DEPLOY / "alerts.yml").read_text()))
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in in_alerts} <= told
    assert set(re.findall(r"`(diffor_\w+)`", (ROOT / "docs" / "serving.md").read_text())) == told
