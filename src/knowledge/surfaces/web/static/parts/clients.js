/** What each MCP client wants to be told: a command, or an entry of its configuration file. */

/** Names by which clients introduce themselves to the server. */
export const CLIENTS = {
  "claude-code": { name: "Claude Code", introduces: /^claude[- ]?code/i },
  "claude-desktop": { name: "Claude Desktop", introduces: /^(claude-ai|claude desktop|mcp-proxy|mcp$)/i },
  vscode: { name: "VS Code", introduces: /visual studio code|vscode/i },
  cursor: { name: "Cursor", introduces: /^cursor/i },
  codex: { name: "Codex", introduces: /codex/i },
  gemini: { name: "Gemini CLI", introduces: /gemini/i },
  qwen: { name: "Qwen Code", introduces: /qwen/i },
  opencode: { name: "opencode", introduces: /opencode/i },
  other: { name: "", introduces: /./ },
};

const json = (value) => JSON.stringify(value, null, 2);
const bearer = (key) => `Bearer ${key}`;
const headers = (key) => (key ? { headers: { Authorization: bearer(key) } } : {});

/** Quote a word for a POSIX shell. */
export const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Return the steps for a client: [{where, code}], where `where` is a file, or "terminal". `key` may be empty. */
export function stepsFor(client, url, key) {
  const header = key ? ` --header "Authorization: ${bearer(key)}"` : "";
  switch (client) {
    case "claude-code": return [{ where: "terminal", code: `claude mcp add --transport http knowledge ${quote(url)}${header}` }];
    case "claude-desktop": return [{ where: "claude_desktop_config.json", code: json({ mcpServers: { knowledge: { command: "uvx", args: ["mcp-proxy", "--transport", "streamablehttp", url], ...(key && { env: { API_ACCESS_TOKEN: key } }) } } }) }];
    case "vscode": return [{ where: ".vscode/mcp.json", code: json({ servers: { knowledge: { type: "http", url, ...headers(key) } } }) }];
    case "cursor": return [{ where: "~/.cursor/mcp.json", code: json({ mcpServers: { knowledge: { url, ...headers(key) } } }) }];
    case "codex": return key
      ? [{ where: "terminal", code: `export KNOWLEDGE_KEY=${quote(key)}\ncodex mcp add knowledge --url ${quote(url)} --bearer-token-env-var KNOWLEDGE_KEY` }]
      : [{ where: "terminal", code: `codex mcp add knowledge --url ${quote(url)}` }];
    case "gemini": return [{ where: "terminal", code: `gemini mcp add --scope user --transport http${header} knowledge ${quote(url)}` }];
    case "qwen": return [{ where: "~/.qwen/settings.json", code: json({ mcpServers: { knowledge: { httpUrl: url, ...headers(key) } } }) }];
    case "opencode": return [{ where: "opencode.json", code: json({ mcp: { knowledge: { type: "remote", url, ...headers(key) } } }) }];
    default: return [
      { where: "address", code: key ? `${url}\nAuthorization: ${bearer(key)}` : url },
      { where: "terminal", code: `curl -s ${quote(url)}${key ? ` -H "Authorization: ${bearer(key)}"` : ""} -H "Content-Type: application/json" \\\n  -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'` },
    ];
  }
}
