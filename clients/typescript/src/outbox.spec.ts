/** What goes out over a stream, and in which messages. */

import { describe, expect, test } from "vitest";
import { all } from "./fixture.js";
import { Outbox, type Parcel } from "./outbox.js";

interface Named extends Parcel {
  readonly name: string;
}

const named = (name: string, size = 1): Named => ({ name, bytes: new Uint8Array(size) });
const names = (parcels: readonly Named[]) => parcels.map(({ name }) => name).join("");
const outbox = (parcels = 10, bytes = 1000) => new Outbox<Named, string>(names, { parcels, bytes });

describe("an outbox", () => {
  test("puts what is ready in one turn of the event loop into one message", async () => {
    const box = outbox();
    const messages = box[Symbol.asyncIterator]();
    const first = messages.next();
    box.push(named("a"));
    await Promise.resolve().then(() => box.push(named("b")));
    expect((await first).value).toBe("ab");
    box.push(named("c"));
    expect((await messages.next()).value).toBe("c");
  });

  test.each<[string, number, number, string[], string[]]>([
    ["as many as a message takes", 2, 1000, ["a", "b", "c", "d", "e"], ["ab", "cd", "e"]],
    ["what fits", 10, 18, ["a", "b", "c"], ["ab", "c"]],
    ["what does not fit, alone", 10, 1, ["a", "b"], ["a", "b"]],
  ])("sends %s", async (_, parcels, bytes, pushed, messages) => {
    const box = outbox(parcels, bytes);
    for (const name of pushed) {
      box.push(named(name));
    }
    box.close();
    expect(await all(box)).toEqual(messages);
  });

  test("holds everything back until it is opened", async () => {
    const box = new Outbox<Named, string>(names);
    const messages = box[Symbol.asyncIterator]();
    const first = messages.next();
    box.push(named("a"));
    let came = false;
    void first.then(() => {
      came = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(came).toBe(false);
    box.open({ parcels: 1, bytes: 1000 });
    expect((await first).value).toBe("a");
  });

  test("ends without what it held back", async () => {
    const box = new Outbox<Named, string>(names);
    box.push(named("a"));
    box.close();
    expect(await all(box)).toEqual([]);
  });

  test("does not send what was withdrawn", async () => {
    const box = outbox();
    const messages = box[Symbol.asyncIterator]();
    const first = messages.next();
    const [a, b] = [named("a"), named("b")];
    box.push(a);
    box.withdraw(a);
    await new Promise((resolve) => setImmediate(resolve));
    box.push(b);
    expect((await first).value).toBe("b");
  });
});
