package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size, written as a number of bytes or with one of the units KiB,
// MiB and GiB ("64KiB").
type Bytes int64

var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// ParseBytes reads a size, for example "65536" or "64KiB". Negative sizes and units other than KiB, MiB and GiB are
// errors.
func ParseBytes(text string) (Bytes, error) {
	digits, factor := strings.TrimSpace(text), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(digits, u.name); ok {
			digits, factor = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is no size: want a number of bytes or one with KiB, MiB or GiB", text)
	}
	return Bytes(n * factor), nil
}

// String writes the size in the largest unit that divides it, for example "64KiB".
func (b Bytes) String() string {
	for _, u := range units {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Set implements the flag value.
func (b *Bytes) Set(text string) error {
	n, err := ParseBytes(text)
	if err != nil {
		return err
	}
	*b = n
	return nil
}

// Type names the value in a flag's help.
func (*Bytes) Type() string { return "size" }

// UnmarshalYAML reads a size as a number or as a text, quoted or not.
func (b *Bytes) UnmarshalYAML(raw []byte) error {
	return b.Set(strings.Trim(strings.TrimSpace(string(raw)), `"'`))
}

// MarshalYAML writes the form with a unit.
func (b Bytes) MarshalYAML() ([]byte, error) { return []byte(b.String()), nil }

// MarshalJSON writes the number of bytes.
func (b Bytes) MarshalJSON() ([]byte, error) { return json.Marshal(int64(b)) }
