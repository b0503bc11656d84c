"""The authorization server of OAuth 2.1: clients, consent, codes and tokens."""
