/** A program that starts a sidecar, sends its address, and is ended by its test. */

import { Sidecar } from "./testing.js";

const sidecar = await Sidecar.start();
process.send?.(sidecar.address);
