package config_test

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
)

// Flags override the environment, and the environment overrides the defaults.
func ExampleLoad() {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse([]string{"--data=/var/lib/pawl", "--limits-artifact-bytes=128KiB"}); err != nil {
		fmt.Println(err)
		return
	}
	env := map[string]string{"PAWL_LIMITS_ARTIFACT_BYTES": "1KiB", "PAWL_LOG_LEVEL": "debug"}
	c, err := config.Load(flags, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	fmt.Println(c.Data, c.Limits.ArtifactBytes, c.LogLevel, c.Listen, err)
	// Output: /var/lib/pawl 128KiB debug 127.0.0.1:7291 <nil>
}

// Validate reports all faults at once, each with its field.
func ExampleConfig_Validate() {
	c := config.Default()
	c.LogLevel = "loud"
	if faults, ok := errors.AsType[*config.Error](c.Validate()); ok {
		for _, f := range faults.Faults {
			fmt.Println(f.Field + ": " + f.Message)
		}
	}
	// Output:
	// data: is required: a directory for the store, or store: the URL of a PostgreSQL database
	// log_level: "loud" is none of debug, info, warn, error
}

func ExampleParseBytes() {
	size, err := config.ParseBytes("64KiB")
	fmt.Println(int64(size), size, err)
	_, err = config.ParseBytes("64KB")
	fmt.Println(err)
	// Output:
	// 65536 64KiB <nil>
	// "64KB" is no size: want a number of bytes or one with KiB, MiB or GiB
}
