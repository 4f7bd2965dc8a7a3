/** An endpoint of models by script: OpenAI's chat completions, streamed. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface ScriptedAnswer {
  text?: string;
  /** The rest of the text, which is sent when it is known. */
  rest?: Promise<string>;
  /** Of an error; default: 200. */
  status?: number;
  calls?: readonly { id: string; name: string; arguments: string }[];
}

export class Endpoint {
  private constructor(
    readonly url: string,
    private readonly server: Server,
  ) {}

  /** Answers the n-th request, from 0, with what say gives. */
  static async start(respond: (n: number) => ScriptedAnswer): Promise<Endpoint> {
    let n = 0;
    const server = createServer((request, response) => {
      request.resume().on("end", async () => {
        const answer = respond(n);
        const [first, ...others] = eventsOf(answer, n++);
        const send = (event?: object) => response.write(`data: ${JSON.stringify(event)}\n\n`);
        response.writeHead(answer.status ?? 200, { "Content-Type": "text/event-stream" });
        send(first);
        if (answer.rest) {
          send({ choices: [{ index: 0, delta: { content: await answer.rest } }] });
        }
        others.forEach(send);
        response.end("data: [DONE]\n\n");
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    return new Endpoint(`http://127.0.0.1:${port}/v1`, server);
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }
}

function eventsOf({ text, calls }: ScriptedAnswer, n: number): object[] {
  const chunk = (delta: object, finish: string | null) => ({
    id: `resp-${n}`,
    model: "scripted",
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const called = (calls ?? []).map((c, index) =>
    chunk(
      {
        tool_calls: [
          { index, id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } },
        ],
      },
      null,
    ),
  );
  return [
    chunk({ role: "assistant", content: text ?? "" }, null),
    ...called,
    chunk({}, calls?.length ? "tool_calls" : "stop"),
    {
      id: `resp-${n}`,
      model: "scripted",
      choices: [],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    },
  ];
}
