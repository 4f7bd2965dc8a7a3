/** The generated messages and service descriptors, for calls that the client does not wrap. */

export * from "./gen/pawl/v1/delivery_pb.js";
export * from "./gen/pawl/v1/pack_pb.js";
export * from "./gen/pawl/v1/reason_pb.js";
export * from "./gen/pawl/v1/record_pb.js";
export * from "./gen/pawl/v1/run_pb.js";
export * from "./gen/pawl/v1/worker_pb.js";
