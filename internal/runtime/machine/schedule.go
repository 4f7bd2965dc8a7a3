package machine

// ScheduleMark is how far a schedule is: every instant of it up to After was fired, or was
// given up.
type ScheduleMark struct {
	// Namespace and ID name the schedule; in the store they are in the row's key.
	Namespace uint32
	ID        string
	// Rule is the cron expression with its time zone. A schedule with another rule
	// begins anew.
	Rule string
	// After is Unix nanoseconds.
	After int64
	// Principal is whom runs are started by; stored before the first of them is, since
	// the id of a firing is a principal's own.
	Principal string
	// RunID is the run of the firing At, Unix nanoseconds; "" = nothing was fired yet.
	RunID string
	At    int64
	// Fired counts runs, Missed instants that were given up, Skipped those at which the
	// run before had not ended.
	Fired   uint64
	Missed  uint64
	Skipped uint64
}
