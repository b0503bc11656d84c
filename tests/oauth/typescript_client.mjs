// Drives the OAuth client of the MCP TypeScript SDK: prints one JSON line per event, and reads the answers of the browser.
import { createInterface } from "node:readline";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, redirectUrl] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const print = (event) => console.log(JSON.stringify(event));
const kept = {};
const provider = {
  redirectUrl,
  clientMetadata: { client_name: "TypeScript SDK", redirect_uris: [redirectUrl] },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; print({ event: "tokens", scope: tokens.scope }); },
  redirectToAuthorization: (address) => print({ event: "authorize", url: String(address) }),
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
};

// Runs a call with a new connection; after an authorization once more.
async function run(work) {
  for (let round = 0; ; round++) {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    const client = new Client({ name: "test", version: "1" });
    try {
      await client.connect(transport);
      return await work(client);
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || round > 1) throw error;
      await transport.finishAuth((await lines.next()).value);
    } finally {
      await client.close();
    }
  }
}

print({ event: "tools", names: (await run((client) => client.listTools())).tools.map((tool) => tool.name) });
kept.tokens = { ...kept.tokens, access_token: "kna_expired" };
print({ event: "refreshed", count: (await run((client) => client.listTools())).tools.length });
// With a refresh token this SDK refreshes and gives up, instead of asking the user for the missing scope.
delete kept.tokens.refresh_token;
const added = await run((client) => client.callTool({ name: "kb_addnote", arguments: { text: "The kettle whistles." } }));
print({ event: "added", error: Boolean(added.isError) });
process.exit(0);
