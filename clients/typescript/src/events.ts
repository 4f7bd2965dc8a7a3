/** Reads a stream of server-sent events. */

/** One server-sent event. */
export interface ServerEvent {
  /** Name of the event; "message" if the stream gives none. */
  readonly name: string;
  readonly data: string;
}

/** Iterates over the events of an answer, as the HTML standard says. It ignores ids and retry. */
export async function* events(response: Response): AsyncGenerator<ServerEvent, void, undefined> {
  let name = "";
  let data: string[] = [];
  for await (const line of lines(response)) {
    if (line === "") {
      if (data.length > 0) {
        yield { name: name || "message", data: data.join("\n") };
      }
      name = "";
      data = [];
    } else if (line.startsWith("event:")) {
      name = textAfter(line, "event:");
    } else if (line.startsWith("data:")) {
      data.push(textAfter(line, "data:"));
    }
  }
}

function textAfter(line: string, field: string): string {
  const value = line.slice(field.length);
  return value.startsWith(" ") ? value.slice(1) : value;
}

/** Iterates over the complete lines of a body; text after the last line break is dropped. */
async function* lines(response: Response): AsyncGenerator<string, void, undefined> {
  if (!response.body) {
    return;
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        yield part.endsWith("\r") ? part.slice(0, -1) : part;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
