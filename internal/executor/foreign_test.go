package executor

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAnswersOfOtherLibraries are said once of each library and version, by name.
func TestAnswersOfOtherLibraries(t *testing.T) {
	t.Parallel()
	var said []string
	e := &Executor{cfg: Config{OnError: func(err error) { said = append(said, err.Error()) }}}
	of := func(provider string) *pawlv1.Message {
		return &pawlv1.Message{Role: "assistant", ProviderJson: provider}
	}
	for range 2 {
		e.warnOf([]*pawlv1.Message{
			of(""), of(`{"library":"pawl","version":"1","message":{}}`),
			of(`{"library":"ai","version":"6.0.1","message":[]}`), of(`{"library":"ai","version":"7.0.0","message":[]}`), of(`{"anthropic":[]}`),
		})
	}
	if len(said) != 3 || !strings.Contains(said[0], "ai 6.0.1") || !strings.Contains(said[1], "ai 7.0.0") {
		t.Errorf("%q", said)
	}
}
