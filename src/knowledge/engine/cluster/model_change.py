"""Changes the embedding model of all servers of a database: they share the embedding and swap together."""

from __future__ import annotations

from knowledge.engine.cluster.member import ServerRole
from knowledge.engine.cluster.signals import ClusterSignals, SignalKind
from knowledge.errors import NotNow
from knowledge.store.cluster.leases import LeaseStore
from knowledge.store.cluster.servers import ServerStore
from knowledge.store.models import ModelStore, StoredModel

LEASE_NAME = "model"
LEASE_SECONDS = 30.0


class ModelChange:
    def __init__(
        self, servers: ServerStore, leases: LeaseStore, models: ModelStore, signals: ClusterSignals, role: ServerRole
    ) -> None:
        self._servers, self._leases, self._models, self._signals = servers, leases, models, signals
        self.role = role
        self._seen: tuple[object, ...] = ()

    def find_share(self) -> tuple[int, int]:
        """Return the rank of this server among the live servers that embed, and their number."""
        ids = sorted(server.id for server in self._servers.list_live() if ServerRole(server.role).has_workers)
        own = self._servers.server_id
        return (ids.index(own), len(ids)) if own in ids else (0, 1)

    def is_active(self, model: StoredModel) -> bool:
        return self._models.get_active() == model

    def activate(self, model: StoredModel, spec: str) -> bool:
        """Activate a model if the indexes of all live servers have its vectors; only one server does it.

        The first model of a database is activated at once, because no other is in use.
        """
        serving = [server for server in self._servers.list_live() if server.has_index and server.is_ready]
        built = all(server.has_model(model.id) for server in serving)
        if not built and self._models.get_active() is not None:
            return False
        token = self._leases.acquire(LEASE_NAME, LEASE_SECONDS)
        if token is None:
            return False
        try:
            self._models.activate(model, spec, (LEASE_NAME, token))
        except NotNow:  # this process was stopped for longer than the lease, and another server has done it
            return False
        self._leases.release(LEASE_NAME, token)
        self._signals.send(SignalKind.MODEL)
        return True

    def has_changed(self) -> bool:
        """Return whether another model was chosen or activated, on any server, since the last call."""
        now = (self._models.get_next_spec(), self._models.get_active())
        before, self._seen = self._seen, now
        return now != before
