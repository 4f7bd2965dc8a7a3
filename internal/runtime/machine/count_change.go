package machine

// CountChange is a figure that differs between two states.
type CountChange struct {
	Name        string
	Base, Other int64
}
