"""An engine that was opened a moment ago still loads its model; whoever asks by meaning can wait that long."""

from __future__ import annotations

import asyncio

from knowledge.engine.api import Engine

JUST_STARTED = 30.0
GLANCE = 0.05
NO_MODEL = "none"


async def model_ready(engine: Engine) -> None:
    """Return when the model is loaded, has failed, or was never wanted; an old engine is taken as it is."""
    while True:
        status = await engine.status()
        model = status.model
        if model.loaded or model.error or model.name == NO_MODEL or status.uptime_seconds > JUST_STARTED:
            return
        await asyncio.sleep(GLANCE)
