"""What needs an extra of the wheel says so, with the command that brings it."""

import re
import tomllib
from pathlib import Path

import pytest

from rs_assets.common import extras
from rs_assets.errors import ConfigurationError
from rs_assets.testing import KafkaBroker


def test_a_kafka_broker_without_its_extra_names_the_command(monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "kafka")
    with pytest.raises(ConfigurationError) as refused, KafkaBroker():
        pass
    assert refused.value.remedy == "python -m pip install 'rs-assets[kafka]'"


def test_each_extra_is_known_to_the_doctor_and_listed_in_the_documentation():
    root = Path(__file__).parents[2]
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `rs-assets\[(\w+)\]` \|", (root / "docs" / "project.md").read_text(), re.MULTILINE)
    assert set(listed) == set(wheel) == {*extras.EXTRAS, "all"}
    assert wheel["all"] == [f"rs-assets[{','.join(name for name in wheel if name != 'all')}]"]
