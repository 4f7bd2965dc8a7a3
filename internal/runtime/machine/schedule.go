package machine

// ScheduleMark is the progress of a schedule. All instants of the schedule up to After were fired or
// skipped.
type ScheduleMark struct {
	// Namespace and ID identify the schedule. In the store they are part of the row's key.
	Namespace uint32
	ID        string
	// Rule is the cron expression with its time zone. If the rule of the schedule changes, the schedule
	// starts over.
	Rule string
	// After is a time in Unix nanoseconds.
	After int64
	// Principal is the principal that starts the runs. It is stored before the first start, because the id of a firing is unique for each
	// principal.
	Principal string
	// RunID is the run that the schedule started last. At is the instant for which it was started, in
	// Unix nanoseconds. RunID is "" if the schedule has not started a run yet.
	RunID string
	At    int64
	// Fired is the number of started runs. Missed is the number of instants that were missed and will
	// not be made up for. Skipped is the number of instants at which the previous run had not ended.
	Fired   uint64
	Missed  uint64
	Skipped uint64
}
