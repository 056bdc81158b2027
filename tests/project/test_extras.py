"""What needs an extra of the wheel says so, with the command that brings it."""

import pytest

from rs_assets.common import extras
from rs_assets.errors import ConfigurationError
from rs_assets.testing import KafkaBroker


def test_a_kafka_broker_without_its_extra_names_the_command(monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra != "kafka")
    with pytest.raises(ConfigurationError) as refused, KafkaBroker():
        pass
    assert refused.value.remedy == "python -m pip install 'rs-assets[kafka]'"
