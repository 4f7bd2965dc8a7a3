package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// openLedger makes the file to which the tools append each of their calls. A line in it proves a
// call, also where the sidecar or a client reports none.
func (p *playthrough) openLedger() error {
	file, err := os.CreateTemp("", "pawl-ledger-*")
	if err != nil {
		return err
	}
	p.entries = file.Name()
	return file.Close()
}

// ledger gives the lines of all tools, in the order in which they were called.
func (p *playthrough) ledger(step) (any, error) {
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
