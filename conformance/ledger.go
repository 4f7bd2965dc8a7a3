package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// openLedger makes the file in which the tools write down that they were called. What
// stands there happened, whatever the sidecar or a client says of it.
func (p *play) openLedger() error {
	file, err := os.CreateTemp("", "pawl-ledger-*")
	if err != nil {
		return err
	}
	p.entries = file.Name()
	return file.Close()
}

// ledger gives the lines of all tools, in the order in which they were called.
func (p *play) ledger(step) (any, error) {
	text, err := os.ReadFile(p.entries)
	if err != nil {
		return nil, err
	}
	lines := []any{}
	for line := range bytes.Lines(text) {
		var entry map[string]any
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("the ledger's line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, entry)
	}
	return map[string]any{"lines": lines}, nil
}
