package secretfile

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// KeyError means that a file does not contain an encryption key. It never contains the content of the file.
type KeyError struct {
	// Path is the path of the file. Detail says what is wrong and what is expected.
	Path, Detail string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("ENCRYPTION_KEY_INVALID: %s: %s", e.Path, e.Detail)
}

// ReadKey reads an encryption key of 16, 24 or 32 bytes (AES-128, -192, -256), written as
// hex or as base64 on one line. Errors: a *[KeyError], and those of [Read].
func ReadKey(path string) ([]byte, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSpace(text)
	key, ok := decodeKey(text)
	if !ok {
		return nil, &KeyError{Path: path, Detail: fmt.Sprintf("%d characters that are neither hex nor base64: want 16, 24 or 32 bytes, as 'openssl rand -hex 32' writes them", len(text))}
	}
	switch len(key) {
	case 16, 24, 32:
		return key, nil
	}
	return nil, &KeyError{Path: path, Detail: fmt.Sprintf("a key of %d bytes: want 16, 24 or 32", len(key))}
}

// ReadKeys reads keys of 32 bytes or more, one on each line, in hex or base64. It ignores empty lines and lines that begin with #. Errors
// name the line and never contain its content. It also returns the errors of [Read].
func ReadKeys(path string) (keys [][]byte, err error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, ok := decodeKey(line)
		if !ok || len(key) < 32 {
			return nil, fmt.Errorf("%s: line %d has no key: want 32 bytes or more as hex or base64, as 'openssl rand -hex 32' writes them", path, i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key: want a line for each, as 'openssl rand -hex 32' writes them", path)
	}
	return keys, nil
}

// decodeKey decodes hex or base64. A text that is valid hex is decoded as hex. As base64 it would be a key of another length, which is
// not what the operator made.
func decodeKey(text []byte) ([]byte, bool) {
	if key, err := hex.DecodeString(string(text)); err == nil {
		return key, true
	}
	for _, form := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := form.DecodeString(string(text)); err == nil {
			return key, true
		}
	}
	return nil, false
}
