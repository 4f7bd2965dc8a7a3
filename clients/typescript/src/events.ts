/** Reading a stream of server-sent events. */

/** One event. */
export interface ServerEvent {
  /** Its name; "message" where none is given. */
  readonly name: string;
  readonly data: string;
}

/** The events of an answer, as the HTML standard says; ids and retry are not used. */
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

/** The whole lines of a body; what follows the last line break is cut off. */
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
