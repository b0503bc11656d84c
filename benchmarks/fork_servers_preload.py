"""Imported last by the fork server of multiprocessing in benchmarks/fork_servers.py."""

from knowledge.extract.process.fork_server import freeze_garbage_collector
from knowledge.extract.sandbox import confine

confine.prepare_sandbox()
freeze_garbage_collector()
