/** Counts the pings in the HTTP/2 frames that a client sends. */

const PREFACE_BYTES = 24;
const HEAD_BYTES = 9;
const PING = 6;
const ACK = 1;

/** Reads the bytes that a client sends over one connection without TLS, and counts the pings. */
export class PingCounter {
  #rest: Buffer = Buffer.alloc(0);
  #preface = true;
  pings = 0;

  take(data: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, data]);
    if (this.#preface && this.#rest.length >= PREFACE_BYTES) {
      this.#preface = false;
      this.#rest = this.#rest.subarray(PREFACE_BYTES);
    }
    while (!this.#preface && this.#rest.length >= HEAD_BYTES) {
      const length = HEAD_BYTES + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < length) {
        return;
      }
      const [type, flags] = [this.#rest[3], this.#rest[4] ?? 0];
      this.pings += type === PING && (flags & ACK) === 0 ? 1 : 0;
      this.#rest = this.#rest.subarray(length);
    }
  }
}
