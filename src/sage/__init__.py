"""The name under which contract 003 is started."""
