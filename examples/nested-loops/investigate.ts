// The worker of sidecar B: investigates one finding a run, is the analyst who is asked, and
// searches the source. What the model answered is in recorded.json. A line is printed for
// each turn that was executed.
//
// Usage: node investigate.js ADDRESS
import { readdirSync, readFileSync } from "node:fs";
import { type Handler, type Json, PawlClient, type Turn } from "pawl-client";

interface Round {
  searches: string[];
  claim: string;
}

interface Finding {
  id: string;
}

type Opinion = { believed: boolean; severity: string };

const here = new URL(".", import.meta.url);
const recorded = JSON.parse(readFileSync(new URL("recorded.json", here), "utf8"));
const shop = new URL("shop/", here);

const client = new PawlClient({ address: process.argv[2] });
// An assessment waits for the analyst, whose turn is executed here as well.
const worker = client.worker({
  packs: ["security-investigation"],
  turns: 4,
  onError: (error) => console.error(`investigate.ts: ${error}`),
});

worker.prompt("investigator", async (turn) => {
  const { rounds } = answers(turn);
  const searches = rounds.flatMap((round) => round.searches);
  const last = rounds.map((round) => round.searches.at(-1));
  const pattern = searches[turn.visit - 1] ?? "";
  await turn.step("search", { pattern });
  return done(turn, { event: last.includes(pattern) ? "Assess" : "Dig" });
});

worker.prompt("assessor", async (turn) => {
  const claim = answers(turn).rounds[turn.visit - 1]?.claim ?? "";
  const { output } = await turn.step<{ output: Opinion }>("analyst", { message: claim });
  const { believed, severity } = output;
  const event = believed ? "Believed" : "Doubted";
  return done(turn, { event, artifacts: { opinion: { claim, severity } } });
});

worker.prompt("concluder", (turn) => {
  const { holds } = answers(turn);
  const opinion = JSON.parse(/The analyst: (.*)/.exec(turn.systemPrompt)?.[1] ?? "{}");
  const verdict = { id: findingOf(turn).id, holds, ...opinion };
  return done(turn, { artifacts: { verdict } });
});

worker.prompt("analyst", (turn) => {
  const { claim } = turn.variables as { claim: string };
  return done(turn, { output: [recorded.analyst[claim]] });
});

worker.tool("search", ({ pattern }: { pattern: string }) => {
  const files = readdirSync(shop).sort();
  return { pattern, found: files.flatMap((file) => matches(file, new RegExp(pattern))) };
});

await worker.run();
client.close();

function findingOf(turn: Turn): Finding {
  return (turn.variables as unknown as { finding: Finding }).finding;
}

function answers(turn: Turn): { rounds: Round[]; holds: boolean } {
  return recorded.investigator[findingOf(turn).id];
}

function done(turn: Turn, reply: Awaited<ReturnType<Handler>>) {
  console.log(`${turn.runId} ${turn.state} ${turn.visit}`);
  return reply;
}

/** Lines of a file that a pattern matches, as FILE:LINE. */
function matches(file: string, pattern: RegExp): Json[] {
  const lines = readFileSync(new URL(file, shop), "utf8").split("\n");
  return lines.flatMap((line, n) => (pattern.test(line) ? [`${file}:${n + 1}`] : []));
}
