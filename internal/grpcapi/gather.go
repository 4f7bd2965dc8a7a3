package grpcapi

import goruntime "runtime"

// gather yields once to other goroutines before a sender takes the waiting messages, so that it sends
// several at once. The commands of one group are synced together and answered right after each other.
// Without gather the first answer would wake the sender, which would send it alone. A single answer is not
// delayed.
func gather() { goruntime.Gosched() }
