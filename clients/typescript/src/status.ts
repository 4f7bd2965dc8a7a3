/** Errors that a server sends as data. */

import { type Code, ConnectError } from "@connectrpc/connect";
import type { Status } from "./gen/google/rpc/status_pb.js";

/** Returns a google.rpc.Status as the error of a call. */
export function statusError(status: Status): ConnectError {
  const error = new ConnectError(status.message, status.code as Code);
  error.details = status.details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
    value,
  }));
  return error;
}
