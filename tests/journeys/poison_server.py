"""Runs `knowledge serve` with a model that fails on one word: `poison_server.py FAULT --data DIR --port PORT`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that child processes can import the model

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.cli import cli
from knowledge.testing import make_test_engine
from tests.support.hostile_models import HostileModel


def open_engine(settings: Settings) -> LocalEngine:
    fault = sys.argv[1]
    return make_test_engine(settings, model=HostileModel(fault, settings.data, slow=fault != "nothing"))


if __name__ == "__main__":
    app.open_engine = open_engine
    cli(["serve", *sys.argv[2:]])
