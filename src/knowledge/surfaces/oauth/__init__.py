"""OAuth 2.1 over HTTP: metadata, registration, the login and consent pages, the token endpoint and access tokens."""
