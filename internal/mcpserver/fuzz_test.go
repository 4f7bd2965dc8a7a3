package mcpserver

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// FuzzArguments: the arguments of a call are variables and a message, or an error.
func FuzzArguments(f *testing.F) {
	f.Add(`{"topic": "stars", "message": "Hello."}`, true)
	f.Add(`{"message": {"a": 1}}`, false)
	f.Add(`{"message": 7}`, true)
	f.Add(``, true)
	f.Add(`{"a": 1, "a": 2}`, true)
	f.Add(`null`, false)
	f.Fuzz(func(t *testing.T, arguments string, takesMessage bool) {
		variables, message, err := splitArguments([]byte(arguments), takesMessage)
		if err != nil {
			return
		}
		values, err := strictjson.Object([]byte(variables))
		if err != nil {
			t.Fatalf("variables %s: %v", variables, err)
		}
		if _, ok := values[messageArgument]; ok && takesMessage || message != "" && !takesMessage {
			t.Errorf("variables %s, message %q", variables, message)
		}
	})
}
