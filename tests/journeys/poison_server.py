"""`knowledge serve` with a model that cannot bear one word: `poison_server.py DEED --data DIR --port PORT`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # where the child processes of this server find the model too

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.cli import cli
from knowledge.testing import make_test_engine
from tests.support.hostile_models import HostileModel


def open_engine(settings: Settings) -> LocalEngine:
    deed = sys.argv[1]
    return make_test_engine(settings, model=HostileModel(deed, settings.data, slow=deed != "nothing"))


if __name__ == "__main__":
    app.open_engine = open_engine
    cli(["serve", *sys.argv[2:]])
