package machine

// Names of the statuses as they appear in indexes, in JSON and to people.
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

// String is the bare name, for example "BUDGET_EXHAUSTED".
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN"
}
