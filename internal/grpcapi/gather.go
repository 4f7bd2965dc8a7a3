package grpcapi

import goruntime "runtime"

// gather yields once to other goroutines before a sender takes the waiting messages, so that the sender sends several
// messages at once. Commands that the store has committed with one sync are answered immediately after each other.
// Without gather, the first answer would wake the sender, and the sender would send this answer alone. A single
// answer is not delayed.
func gather() { goruntime.Gosched() }
