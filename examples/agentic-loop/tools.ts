// Executes the tools of the agentic loop for the sidecar at ADDRESS, until SIGTERM:
// `fetch` reads a page over HTTP and keeps it as a blob, `critique` measures it.
//
// Usage: node tools.js ADDRESS
//
// The types are those of the pack, by
// `npx pawl codegen --out agentic_loop.ts agentic-loop.pack.yaml`.
import { PawlClient } from "pawl-client";
import { agenticLoopPack } from "./agentic_loop.js";

const client = new PawlClient({ address: process.argv[2] });
const worker = client.worker({ packs: [agenticLoopPack] });

worker.tool("fetch", async ({ url }, { step, attempt, signal }) => {
  console.error(`tools.ts: fetch, step ${step}, attempt ${attempt}`);
  const response = await fetch(url, { signal });
  if (!response.ok) {
    throw new Error(`${url} answered ${response.status}`);
  }
  const contentType = response.headers.get("content-type") ?? "application/octet-stream";
  const body = new Uint8Array(await response.arrayBuffer());
  const { ref, size } = await client.putBlob(body, { mediaType: contentType, signal });
  const excerpt = textOf(new TextDecoder().decode(body)).slice(0, 120);
  return { page: ref, content_type: contentType, bytes: size, excerpt };
});

worker.tool("critique", async ({ page }, { step, attempt, signal }) => {
  console.error(`tools.ts: critique, step ${step}, attempt ${attempt}`);
  const html = new TextDecoder().decode((await client.getBlob(page, { signal })).data);
  const paragraphs = html.match(/<p>.*?<\/p>/gs) ?? [];
  const lengths = paragraphs.map((paragraph) => wordsOf(paragraph).length);
  const sayings = new Set(paragraphs.map((p) => textOf(p).replace(/^Day \d+\. /, "")));
  return {
    words: wordsOf(html).length,
    paragraphs: paragraphs.length,
    longest_paragraph: Math.max(0, ...lengths),
    different_paragraphs: sayings.size,
    headings: html.match(/<h[1-6]>/g)?.length ?? 0,
    images_without_alt: html.match(/<img(?![^>]* alt=)/g)?.length ?? 0,
    vague_links: html.match(/>(click here|more|link)</g)?.length ?? 0,
  };
});

await worker.run();
client.close();

function textOf(html: string): string {
  return html.replace(/(<[^>]*>|\s)+/g, " ").trim();
}

function wordsOf(html: string): string[] {
  return textOf(html).match(/[\p{L}\p{N}'’-]+/gu) ?? [];
}
