// Converts every tool of MCP endpoints with the AI SDK and its providers; prints the failures as JSON.
// Run in a folder with node_modules of its own: node convert.mjs URL...

import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createMCPClient } from '@ai-sdk/mcp'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText } from 'ai'

// No request leaves the machine: the providers get a fetch that keeps the body and refuses.
function recorder() {
  const bodies = []
  const fetch = async (_, init) => {
    bodies.push(JSON.parse(init.body))
    return new Response('{"error":{"message":"recorded"}}', { status: 400 })
  }
  return { bodies, fetch }
}

const countTools = {
  openai: (body) => body.tools.length,
  anthropic: (body) => body.tools.length,
  google: (body) => body.tools.flatMap((tool) => tool.functionDeclarations).length,
}

async function convert(url) {
  const client = await createMCPClient({ transport: { type: 'http', url } })
  try {
    const tools = await client.tools()
    const failures = []
    for (const name of Object.keys(countTools)) {
      const { bodies, fetch } = recorder()
      const model = {
        openai: () => createOpenAI({ apiKey: '-', fetch })('gpt-5'),
        anthropic: () => createAnthropic({ apiKey: '-', fetch })('claude-sonnet-4-5'),
        google: () => createGoogleGenerativeAI({ apiKey: '-', fetch })('gemini-2.5-flash'),
      }[name]()
      let reason = 'sent nothing'
      try {
        await generateText({ model, tools, prompt: 'hello', maxRetries: 0 })
      } catch (error) {
        reason = String(error)
      }
      if (!bodies.length) failures.push(`${name}: ${reason}`)
      else if (countTools[name](bodies[0]) !== Object.keys(tools).length) failures.push(`${name}: tools are missing`)
    }
    return { tools: Object.keys(tools), failures }
  } finally {
    await client.close()
  }
}

const results = []
for (const url of process.argv.slice(2)) results.push(await convert(url))
console.log(JSON.stringify(results))
