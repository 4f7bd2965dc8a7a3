/** What a turn has shown so far, on its way to those who watch. */

import { PawlError } from "./errors.js";

/** A piece that the contract takes, and its offset in the output of the turn, bytes. */
interface Piece {
  readonly offset: number;
  readonly text: string;
}

/** Sends a piece. Rejects with CHUNK_GAP where one before it is missing. */
export type SendPiece = (piece: Piece) => Promise<void>;

/** The contract takes 64 KiB of UTF-8. */
const PIECE_BYTES = 60 * 1024;

/**
 * The output of one turn in order. All of it is kept until the turn is over: a sidecar
 * that was restarted has forgotten it, and is told again from the offset that it names.
 */
export class TurnOutput {
  readonly #send: SendPiece;
  readonly #pieces: Piece[] = [];
  #bytes = 0;
  #sent = 0;
  #sending: Promise<void> = Promise.resolve();

  constructor(send: SendPiece) {
    this.#send = send;
  }

  /** Adds some text; resolves once it was sent. */
  write(text: string): Promise<void> {
    for (const piece of cut(text)) {
      this.#pieces.push({ offset: this.#bytes, text: piece });
      this.#bytes += new TextEncoder().encode(piece).length;
    }
    const sent = this.#sending.then(() => this.#flush());
    this.#sending = sent.catch(() => undefined);
    return sent;
  }

  async #flush(): Promise<void> {
    for (let piece = this.#pieces[this.#sent]; piece; piece = this.#pieces[this.#sent]) {
      try {
        await this.#send(piece);
        this.#sent += 1;
      } catch (error) {
        if (!PawlError.is(error, "CHUNK_GAP")) {
          throw error;
        }
        this.#sent = this.#at(error.limit ?? 0);
      }
    }
  }

  /** The piece that holds an offset. */
  #at(offset: number): number {
    const after = this.#pieces.findIndex((piece) => piece.offset > offset);
    return (after < 0 ? this.#pieces.length : after) - 1;
  }
}

/** Text in pieces, characters kept whole. */
function cut(text: string): string[] {
  const bytes = new TextEncoder().encode(text);
  const pieces: string[] = [];
  for (let start = 0; start < bytes.length; ) {
    let end = Math.min(start + PIECE_BYTES, bytes.length);
    while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) {
      end -= 1;
    }
    pieces.push(new TextDecoder().decode(bytes.subarray(start, end)));
    start = end;
  }
  return pieces;
}
