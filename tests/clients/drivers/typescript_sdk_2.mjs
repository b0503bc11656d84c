// Drives the MCP TypeScript SDK 2.x; see python_sdk_1.py. A second argument selects how it negotiates the version.

import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const target = JSON.parse(process.argv[2]);
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url))
  : new StdioClientTransport(target);
const options = { versionNegotiation: { mode: process.argv[3] ?? "auto" } };
const client = new Client({ name: "restart-check", version: "1.0.0" }, options);
await client.connect(transport);
const { tools } = await client.listTools();
print({ protocol: client.getNegotiatedProtocolVersion(), tools: tools.map((tool) => tool.name) });

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
