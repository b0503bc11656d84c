"""The engine's REST API, one file for each noun."""

from knowledge.surfaces.rest.app import rest_app
from knowledge.surfaces.rest.framework.context import EngineFor

__all__ = ["EngineFor", "rest_app"]
