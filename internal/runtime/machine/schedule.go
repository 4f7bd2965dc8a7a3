package machine

// ScheduleMark is the progress of a schedule. Every instant of the schedule up to After was fired or skipped.
type ScheduleMark struct {
	// Namespace and ID identify the schedule. In the store they are part of the row's key.
	Namespace uint32
	ID        string
	// Rule is the cron expression with its time zone. If the schedule gets another rule, it begins again.
	Rule string
	// After is a time in Unix nanoseconds.
	After int64
	// Principal is the principal that starts the runs. It is stored before the first start, because the id of a firing is unique for each
	// principal.
	Principal string
	// RunID is the run that the schedule started last, for the instant At, in Unix nanoseconds; "" = it has started no run yet.
	RunID string
	At    int64
	// Fired counts the started runs. Missed counts the instants that were missed for good. Skipped counts the instants at which the previous run
	// had not ended.
	Fired   uint64
	Missed  uint64
	Skipped uint64
}
