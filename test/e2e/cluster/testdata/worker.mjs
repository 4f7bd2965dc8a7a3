/** Workers, one for each namespace, whose tools tell the world outside under the keys of calls. */

const [address, ledger, pack, spaces, library] = process.argv.slice(2);
const { PawlClient, PawlError } = await import(library);

async function tell(tool, key) {
  const response = await fetch(ledger, { method: "POST", body: JSON.stringify({ tool, key }) });
  return await response.json();
}

async function work(turn) {
  await turn.step("charge", {});
  try {
    await turn.step("once", {});
  } catch (error) {
    if (!PawlError.is(error) || error.kind !== "step_failed") {
      throw error;
    }
    // Nobody knows whether it was done, so it is not done again.
  }
  return { event: "More" };
}

function serve(namespace) {
  return new PawlClient({ address, namespace })
    .worker({ packs: [pack], turns: 4, steps: 4, allowUnknown: true })
    .prompt("work", work)
    .prompt("end", () => ({ output: "done" }))
    .tool("charge", (_, { idempotencyKey }) => tell("charge", idempotencyKey))
    .tool("once", (_, { idempotencyKey }) => tell("once", idempotencyKey))
    .run();
}

await Promise.all(spaces.split(",").map(serve));
