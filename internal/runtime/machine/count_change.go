package machine

// CountChange is a number that differs between two states.
type CountChange struct {
	Name        string
	Base, Other int64
}
