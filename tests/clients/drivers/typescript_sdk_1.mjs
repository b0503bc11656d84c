// Drives the MCP TypeScript SDK 1.x; see python_sdk_1.py. Run it from a folder whose node_modules has the package.

import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { LATEST_PROTOCOL_VERSION } from "@modelcontextprotocol/sdk/types.js";

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const target = JSON.parse(process.argv[2]);
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport(target);
const client = new Client({ name: "restart-check", version: "1.0.0" });
await client.connect(transport);
const { tools } = await client.listTools();
// Version 1.12 has no property for it; the server accepts the version that this SDK asks for.
print({ protocol: transport.protocolVersion ?? LATEST_PROTOCOL_VERSION, tools: tools.map((tool) => tool.name) });

for await (const line of createInterface({ input: process.stdin })) {
  try {
    const answer = await client.callTool(JSON.parse(line));
    const text = answer.content.map((part) => part.text ?? "").join("");
    print({ text, is_error: Boolean(answer.isError) });
  } catch (error) {
    print({ failure: String(error) });
  }
}
await client.close();
process.exit(0);
