package auth

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// HashLines replaces the tokens in a tokens file by their digests. n is the number of replaced tokens.
// Comments, spaces and existing digests stay unchanged. The error contains all faults with their lines,
// but no token.
func HashLines(text []byte) (hashed []byte, n int, err error) {
	var out bytes.Buffer
	var faults []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		rewritten, changed, err := hashLine(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
		}
		if changed {
			n++
		}
		out.WriteString(rewritten)
	}
	return out.Bytes(), n, errors.Join(faults...)
}

func hashLine(line string) (rewritten string, changed bool, err error) {
	text := strings.TrimSpace(line)
	fields := strings.Fields(text)
	if text == "" || strings.HasPrefix(text, "#") {
		return line, false, nil
	}
	if len(fields) != 3 {
		return line, false, fmt.Errorf("%d fields; want PRINCIPAL SCOPES TOKEN", len(fields))
	}
	if strings.HasPrefix(fields[2], digestForm) {
		return line, false, nil
	}
	if err := checkSecret(fields[2]); err != nil {
		return line, false, err
	}
	at := strings.LastIndex(line, fields[2])
	return line[:at] + Digested(fields[2]) + line[at+len(fields[2]):], true, nil
}
