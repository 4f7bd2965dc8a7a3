package grpcapi

import goruntime "runtime"

// gather lets whoever can run go first, once, before a sender takes what waits to be
// sent. The commands of one group are synced together and answered one right after the
// other: the first to be told would otherwise wake the sender, which would send that
// answer alone. An answer that nothing follows waits for nothing.
func gather() { goruntime.Gosched() }
