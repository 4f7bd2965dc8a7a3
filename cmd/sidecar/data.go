package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/command"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

// keyFlag is the file of a directory's encryption key, here as for serve.
const keyFlag = "encryption-key-file"

// dataFlag adds --data, and what opens the directory.
func dataFlag(cmd *cobra.Command, data *server.Data, usage string) {
	cmd.Flags().StringVar(&data.Dir, "data", "", usage)
	completeDir(cmd, "data")
	dataKeyFlag(cmd, data)
}

// storeFlag adds --store besides --data, and what opens a database.
func storeFlag(cmd *cobra.Command, data *server.Data) {
	cmd.Flags().Var(&data.Database.URL, "store", "PostgreSQL database of a store that no sidecar has open, instead of --data: postgres://USER@HOST[:PORT]/DATABASE")
	databaseFlags(cmd, data)
}

// databaseFlags adds what opens a database; its variables in the environment are those of serve.
func databaseFlags(cmd *cobra.Command, data *server.Data) {
	schema := config.Default().StoreSchema
	if set := os.Getenv(config.EnvName("store-schema")); set != "" {
		schema = set
	}
	cmd.Flags().StringVar(&data.Database.PasswordFile, "store-password-file", os.Getenv(config.EnvName("store-password-file")), "file of the password of the database")
	cmd.Flags().StringVar(&data.Database.Schema, "store-schema", schema, "schema of the database that has the tables")
}

// dataOrTarget adds what leads to a store: the directory of one that is stopped, or the
// sidecar that serves it.
func dataOrTarget(cmd *cobra.Command, data *server.Data, c *command.Client) {
	dataFlag(cmd, data, "directory of a store that no sidecar has open; none: ask the sidecar at --addr")
	storeFlag(cmd, data)
	c.BindTarget(cmd)
}

// exclusive refuses flags that contradict each other.
func exclusive(cmd *cobra.Command, flags ...string) error {
	var given []string
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) < 2 {
		return nil
	}
	return output.Usage(fmt.Errorf("%s: give one of them", strings.Join(given, " and ")))
}

// dataKeyFlag adds the key alone; its variable in the environment is that of serve.
func dataKeyFlag(cmd *cobra.Command, data *server.Data) {
	cmd.Flags().StringVar(&data.KeyFile, keyFlag, os.Getenv(config.EnvName(keyFlag)), "file of the key under which the directory is encrypted")
}
