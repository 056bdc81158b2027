"""docs/deploy: the files say what the commands, Dagster and systemd understand."""

import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config

from rs_assets.cli.main import main

FOLDER = Path(__file__).parents[2] / "docs" / "deploy"
UNITS = ("stream@.service", "standby@.service", "collect@.service")
DAGSTER = {"dagster-webserver", "dagster-daemon"}


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def command_called(name):
    """The command of that name; it must be there."""
    found = main.get_command(click.Context(main), name)
    assert found is not None, name
    return found


def test_should_run_commands_that_exist(services):
    commands = [service["command"] for service in services.values() if "command" in service]
    for unit in UNITS:
        line = next(line for line in _unit(unit).splitlines() if line.startswith("ExecStart="))
        commands.append(Path(line.removeprefix("ExecStart=")).name.split())
    assert {command[0] for command in commands} == {"rs-assets", *DAGSTER}
    for name, *arguments in commands:
        if name == "rs-assets":
            command_called(arguments[0]).make_context(arguments[0], arguments[1:])


def _pods():
    """The pod templates of the manifests, by name."""
    found = [yaml.safe_load(path.read_text()) for path in sorted((FOLDER / "kubernetes").glob("*.yaml"))]
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in found
        if "template" in each.get("spec", {})
    }


def test_pods_run_commands_that_exist_and_may_drain():
    commands = [container["command"] for pod in _pods().values() for container in pod["containers"]]
    assert {command[0] for command in commands} == {"rs-assets", *DAGSTER}
    for name, *arguments in commands:
        if name == "rs-assets":
            command_called(arguments[0]).make_context(arguments[0], arguments[1:])
    assert {pod["terminationGracePeriodSeconds"] for pod in _pods().values()} == {120}


def test_the_manifests_name_files_and_variables_that_exist():
    folder = FOLDER / "kubernetes"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    generated = [file.partition("=")[2] for file in kustomization["configMapGenerator"][0]["files"]]
    assert {*kustomization["resources"], *generated} == {path.name for path in folder.glob("*.yaml")} - {
        "kustomization.yaml"
    }
    variables = {literal.partition("=")[0] for literal in kustomization["configMapGenerator"][1]["literals"]}
    page = (FOLDER.parent / "operations.md").read_text()
    assert all(f"`{name}`" in page for name in variables if name.startswith("RS_"))


def test_no_pod_is_reached_from_outside():
    kinds = {
        yaml.safe_load(path.read_text())["kind"]
        for path in (FOLDER / "kubernetes").glob("*.yaml")
        if path.name != "instance.yaml"
    }
    assert kinds.isdisjoint({"Service", "Ingress"})
    web = next(c for c in _pods()["dagster"]["containers"] if c["name"] == "web")
    assert web["command"][web["command"].index("--host") + 1] == "127.0.0.1"


def test_should_give_streams_the_time_to_drain(services):
    assert services["revenue"]["stop_grace_period"] == "2m"
    assert all("TimeoutStopSec=120" in _unit(unit) for unit in UNITS)


def test_should_be_reached_on_loopback_only(services):
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("file", ["dagster.yaml", "kubernetes/instance.yaml"])
def test_dagster_should_take_its_settings(file, tmp_path, monkeypatch):
    for name in ("HOST", "USER", "PASSWORD"):
        monkeypatch.setenv(f"DAGSTER_POSTGRES_{name}", "postgres")
    shutil.copy(FOLDER / file, tmp_path / "dagster.yaml")
    settings, _ = dagster_instance_config(str(tmp_path))
    assert settings["storage"]["postgres"]["postgres_db"]["db_name"] == "dagster"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_should_take_the_unit(name, tmp_path):
    unit = tmp_path / name.replace("@", "@revenue")
    binary = shutil.which("true")
    unit.write_text(_unit(name).replace("/srv/streams/.venv/bin/rs-assets", binary).replace("User=streams\n", ""))
    told = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert unit.name not in told.stderr


def _unit(name):
    return (FOLDER / name).read_text()
