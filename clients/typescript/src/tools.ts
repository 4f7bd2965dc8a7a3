/** Tools that a process executes for the runs that it drives. */

import type { Json } from "./plain_message.js";
import type { ToolCall } from "./tool_call.js";
import type { AnyPack, ArgumentsOf, NameOf, PackTypes } from "./types.js";

/** A tool that this process executes. An error that it throws is the error of the step. */
export type Tool<Arguments = Json> = (payload: Arguments, call: ToolCall) => Promise<Json> | Json;

/** Tools by name; "*" executes all tools without an entry. */
export type Tools<P extends PackTypes = AnyPack> = {
  readonly [N in NameOf<P["tools"]>]?: Tool<ArgumentsOf<P, N>>;
};
