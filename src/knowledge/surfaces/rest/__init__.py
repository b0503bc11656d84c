"""The REST API, one module per resource."""

from knowledge.surfaces.rest.app import make_rest_app
from knowledge.surfaces.rest.framework.dependencies import EngineFor

__all__ = ["EngineFor", "make_rest_app"]
