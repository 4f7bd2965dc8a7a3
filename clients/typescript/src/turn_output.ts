/** The output of a turn so far, and how it is sent to readers. */

import { PawlError } from "./errors.js";

/** A piece of output of at most PIECE_BYTES, and its offset in the turn's output in bytes. */
interface Piece {
  readonly offset: number;
  readonly text: string;
  /** True: reasoning of the model, not output. */
  readonly reasoning: boolean;
}

/** A piece to send; `reset`: readers discard what they received before. */
export interface SentPiece extends Piece {
  readonly reset: boolean;
}

/** Sends a piece. Rejects with CHUNK_GAP if the sidecar lacks the piece before it. */
export type SendPiece = (piece: SentPiece) => Promise<void>;

/** The contract accepts 64 KiB of UTF-8. */
const PIECE_BYTES = 60 * 1024;

const NOTHING: Piece = { offset: 0, text: "", reasoning: false };

/**
 * The output and the reasoning of one turn, in order. All of it is kept until the turn is over: a
 * sidecar that was restarted has lost it, and receives it again from the offset that it names.
 */
export class TurnOutput {
  readonly #send: SendPiece;
  #pieces: Piece[] = [];
  #bytes = 0;
  #sent = 0;
  /** The next piece is sent as the first one. */
  #reset = false;
  #sending: Promise<void> = Promise.resolve();

  constructor(send: SendPiece) {
    this.#send = send;
  }

  /** Adds text; resolves when it was sent. */
  write(text: string, reasoning = false): Promise<void> {
    for (const piece of cut(text)) {
      this.#pieces.push({ offset: this.#bytes, text: piece, reasoning });
      this.#bytes += new TextEncoder().encode(piece).length;
    }
    return this.#then(() => this.#flush());
  }

  /** Takes back the last bytes; resolves when the rest was sent again. */
  retract(bytes: number): Promise<void> {
    return this.#then(() => {
      this.#bytes -= bytes;
      this.#pieces = this.#pieces.filter(({ offset }) => offset < this.#bytes);
      this.#sent = 0;
      this.#reset = true;
      return this.#flush();
    });
  }

  #then(send: () => Promise<void>): Promise<void> {
    const sent = this.#sending.then(send);
    this.#sending = sent.catch(() => undefined);
    return sent;
  }

  async #flush(): Promise<void> {
    if (this.#reset && this.#pieces.length === 0) {
      await this.#send({ ...NOTHING, reset: true });
      this.#reset = false;
    }
    for (let piece = this.#pieces[this.#sent]; piece; piece = this.#pieces[this.#sent]) {
      try {
        await this.#send({ ...piece, reset: this.#reset });
        this.#reset = false;
        this.#sent += 1;
      } catch (error) {
        if (!PawlError.is(error, "CHUNK_GAP")) {
          throw error;
        }
        this.#sent = this.#at(error.limit ?? 0);
      }
    }
  }

  /** Returns the index of the piece that contains an offset. */
  #at(offset: number): number {
    const after = this.#pieces.findIndex((piece) => piece.offset > offset);
    return (after < 0 ? this.#pieces.length : after) - 1;
  }
}

/** Splits text into pieces, between characters. */
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
