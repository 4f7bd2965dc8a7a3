package machine

// ScheduleMark is the progress of a schedule: every instant of it up to After was fired or skipped.
type ScheduleMark struct {
	// Namespace and ID identify the schedule; in the store they are in the row's key.
	Namespace uint32
	ID        string
	// Rule is the cron expression with its time zone. A schedule with another rule begins anew.
	Rule string
	// After is Unix nanoseconds.
	After int64
	// Principal is the principal that starts the runs. It is stored before the first start, because the id of
	// a firing is unique per principal.
	Principal string
	// RunID is the run of the firing At, Unix nanoseconds; "" = none was fired yet.
	RunID string
	At    int64
	// Fired counts runs, Missed the instants that were given up, Skipped those at which the run before had
	// not ended.
	Fired   uint64
	Missed  uint64
	Skipped uint64
}
