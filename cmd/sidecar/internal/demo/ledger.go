package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Ledger is the file that represents the bank in the refund demo. It has one line of JSON for each payment. It does not remove
// duplicates, so that a payment that is made twice is visible.
type Ledger struct{ Path string }

// Payment is one line of a ledger.
type Payment struct {
	// Key is the idempotency key of the call that made the payment.
	Key    string  `json:"key"`
	Order  string  `json:"order"`
	Amount float64 `json:"amount"`
}

// Pay appends a payment and syncs the file.
func (l Ledger) Pay(p Payment) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(l.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return file.Sync()
}

// Payments returns all payments in the order in which they were made. If the file does not exist, it returns none.
func (l Ledger) Payments() ([]Payment, error) {
	content, err := os.ReadFile(l.Path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	var all []Payment
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		var p Payment
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("ledger %s, line %d: %w", l.Path, len(all)+1, err)
		}
		all = append(all, p)
	}
	return all, lines.Err()
}

// Find returns the payment of an idempotency key.
func (l Ledger) Find(key string) (Payment, bool, error) {
	all, err := l.Payments()
	for _, p := range all {
		if p.Key == key {
			return p, true, err
		}
	}
	return Payment{}, false, err
}
