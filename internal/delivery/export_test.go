package delivery

// Sign is sign for the tests of this package.
var Sign = sign

// Sending returns the number of outbox rows that are being sent.
func (o *Outbox) Sending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.live)
}
