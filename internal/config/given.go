package config

import (
	"fmt"

	"github.com/spf13/pflag"
)

// given is the value of a flag that accepts every text. [Load] reports the refused texts of all flags together, which
// pflag cannot do: it ends at the first one.
type given struct {
	pflag.Value
	// fault says why a text was refused; "" = each text was valid.
	fault string
}

// Set stores a text that the setting accepts, and the fault of the first one that it refuses.
func (g *given) Set(text string) error {
	if err := g.Value.Set(text); err != nil && g.fault == "" {
		g.fault = refusal(g.Value, text, err)
	}
	return nil
}

// acceptAll makes the flags of fs accept every text. A list accepts every text already.
func acceptAll(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if _, isList := f.Value.(pflag.SliceValue); !isList {
			f.Value = &given{Value: f.Value}
		}
	})
}

// forms say which texts a flag accepts, by the type of its value. The errors of other types say it themselves.
var forms = map[string]string{
	"bool":     "is not true or false",
	"duration": "is no duration: want a number with a unit, as 300ms, 20s, 5m or 24h",
	"float64":  "is no number",
	"int":      "is no whole number",
	"size":     "is no size: want a number of bytes or one with KiB, MiB or GiB",
}

// refusal returns the message about a text that a value refuses.
func refusal(v pflag.Value, text string, err error) string {
	if form := forms[v.Type()]; form != "" {
		return fmt.Sprintf("%q %s", text, form)
	}
	return fmt.Sprintf("%q: %s", text, err)
}
