"""Signals between the servers of one database: a job was queued or changed, or the change log moved.

This is the one place where they arrive. They only save waiting: `ClusterMember` polls for what a lost signal announced.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import StrEnum

from knowledge.errors import KnowledgeError
from knowledge.store.cluster.notifications import NotificationListener, send_notifications
from knowledge.store.database import Database

log = logging.getLogger(__name__)

RECEIVE_SECONDS = 0.5
"""Longest wait for a signal, after which the thread looks whether it must stop."""
RECONNECT_SECONDS = 1.0
MAX_UNSENT = 10_000


class SignalKind(StrEnum):
    QUEUED = "queued"
    """A job or a crawl was queued."""
    JOB = "job"
    """The row of a job has changed."""
    RETRIED = "retried"
    """A job begins anew, so what is known of its progress is out of date."""
    CANCEL = "cancel"
    """The server that runs a job is asked to cancel it."""
    CHANGES = "changes"
    """The change log has grown."""
    AGENTS = "agents"
    """An agent was seen, or refused."""
    MODEL = "model"
    """Another embedding model was chosen or activated."""


SignalCallback = Callable[[SignalKind, int], None]


class ClusterSignals:
    """Sends signals to the other servers, and passes theirs to the subscribers; does nothing without a URL."""

    def __init__(self, database: Database, url: str | None, server_id: str) -> None:
        self._database, self._server_id = database, server_id
        self._listener = NotificationListener(url) if url is not None else None
        self._subscribers: list[SignalCallback] = []
        self._changed = threading.Condition()
        self._unsent: dict[str, None] = {}
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._receive_forever, name="signals-in", daemon=True),
            threading.Thread(target=self._send_forever, name="signals-out", daemon=True),
        ]

    def subscribe(self, callback: SignalCallback) -> None:
        self._subscribers.append(callback)

    def send(self, kind: SignalKind, identity: int = 0) -> None:
        """Tell the other servers, soon and without waiting; equal signals that wait are sent once."""
        if self._listener is None:
            return
        with self._changed:
            if len(self._unsent) < MAX_UNSENT:  # what is left out is found by polling
                self._unsent[f"{kind}:{identity}"] = None
                self._changed.notify()

    def start(self) -> None:
        if self._listener is not None:
            for thread in self._threads:
                thread.start()

    def close(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        if self._listener is not None:
            self._listener.close()

    def _send_forever(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unsent or self._stopping.is_set())
                words, self._unsent = list(self._unsent), {}
            if words:
                try:
                    send_notifications(self._database, self._server_id, words)
                except KnowledgeError as error:
                    log.debug("signals were not sent: %s", error)
            if self._stopping.is_set():
                return

    def _receive_forever(self) -> None:
        assert self._listener is not None
        while not self._stopping.is_set():
            try:
                for payload in self._listener.receive(RECEIVE_SECONDS):
                    self._pass_on(payload)
            except KnowledgeError as error:
                log.warning("%s; this server polls until it is connected again", error)
                self._stopping.wait(RECONNECT_SECONDS)

    def _pass_on(self, payload: str) -> None:
        sender, *words = payload.split()
        if sender == self._server_id:
            return
        for word in words:
            kind, _, identity = word.partition(":")
            try:
                signal, number = SignalKind(kind), int(identity)
            except ValueError:  # of a newer version
                continue
            for callback in self._subscribers:
                callback(signal, number)
