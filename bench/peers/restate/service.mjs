// The loop as a virtual object of Restate: one object a run, one call an event. Listens on
// the port given and says "ready" when it does.
import "./node20.mjs";
import * as restate from "@restatedev/restate-sdk";

const loop = restate.object({
  name: "loop",
  handlers: {
    start: async (ctx) => ctx.set("events", []),
    event: async (ctx, payload) => ctx.set("events", [...(await ctx.get("events")), payload]),
    end: async (ctx) => ctx.set("ended", true),
    read: restate.handlers.object.shared(async (ctx) => (await ctx.get("events")) ?? []),
  },
});

await restate.serve({ services: [loop], port: Number(process.argv[2]) });
process.stdout.write("ready\n");
