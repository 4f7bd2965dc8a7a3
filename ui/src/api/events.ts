/** Reads server-sent events from a fetch, because EventSource cannot send a token. */

export interface ServerEvent {
  /** Name of the event; "message" if the stream gives none. */
  name: string;
  data: string;
  /** The position at which a reconnect resumes; empty: none. */
  id: string;
}

/** Splits received text, in pieces of any size, into events. */
export class EventParser {
  #rest = "";
  #event: ServerEvent = { name: "message", data: "", id: "" };

  push(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    const done: ServerEvent[] = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.#event.data !== "") {
          done.push(this.#event);
        }
        this.#event = { name: "message", data: "", id: "" };
      } else {
        this.#field(line);
      }
    }
    return done;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") {
      this.#event.name = value;
    } else if (name === "id") {
      this.#event.id = value;
    } else if (name === "data") {
      this.#event.data += (this.#event.data === "" ? "" : "\n") + value;
    }
  }
}
