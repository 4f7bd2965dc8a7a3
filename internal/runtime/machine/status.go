package machine

// statusNames are the names of the statuses that are used in indexes, in JSON and for display.
var statusNames = [...]string{
	StatusUnset:     "UNSET",
	Running:         "RUNNING",
	Waiting:         "WAITING",
	Completed:       "COMPLETED",
	BudgetExhausted: "BUDGET_EXHAUSTED",
	Escalated:       "ESCALATED",
	Failed:          "FAILED",
	Cancelled:       "CANCELLED",
}

// String returns the name of the status, for example "BUDGET_EXHAUSTED".
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN"
}
