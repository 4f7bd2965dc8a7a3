// Package ratelimit delays calls of models and tools until the operator's limits allow them.
//
// Owns: the current table of limits; the usage of each limit in the last minute; the calls in progress
// and the waiting calls. [Limiter] decides. It is pure and single-threaded, and takes the time as an
// argument. [Service] locks the limiter, reads the clock and follows the commits of runs.
//
// Guarantees: no minute has more calls than a limit allows, nor more tokens if no call uses more than
// was counted for it. There are never more concurrent calls than allowed. This also holds after a
// restart: the usage of the last minute is read from the journal, and the calls in progress are read
// from the runs. Tenants that wait for the same limit begin calls in proportion to their weights,
// independent of how many calls each has queued. The calls of one tenant that count against the same
// limits and keys begin in the order of their requests.
package ratelimit
