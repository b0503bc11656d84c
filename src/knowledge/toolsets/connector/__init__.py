"""The connector: `search` and `fetch`, as ChatGPT connectors and deep research call them."""
