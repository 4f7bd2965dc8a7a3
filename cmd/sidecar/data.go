package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

// keyFlag is the flag for the file with the encryption key of a directory. It has the same name as the flag of serve.
const keyFlag = "encryption-key-file"

// dataFlag adds --data, and the other flags that are needed to open a store in a directory.
func dataFlag(cmd *cobra.Command, data *server.Data, usage string) {
	cmd.Flags().StringVar(&data.Dir, "data", "", usage)
	completeDir(cmd, "data")
	dataKeyFlag(cmd, data)
}

// storeFlag adds --store, and the other flags that are needed to open a store in a database.
func storeFlag(cmd *cobra.Command, data *server.Data) {
	cmd.Flags().Var(&data.Database.URL, "store", "PostgreSQL database that no sidecar has open, instead of --data: postgres://USER@HOST[:PORT]/DATABASE")
	databaseFlags(cmd, data)
}

// databaseFlags adds the flags that are needed to open a database. They have the same environment variables as the flags of serve.
func databaseFlags(cmd *cobra.Command, data *server.Data) {
	schema := config.Default().StoreSchema
	if set := os.Getenv(config.EnvName("store-schema")); set != "" {
		schema = set
	}
	cmd.Flags().StringVar(&data.Database.PasswordFile, "store-password-file", os.Getenv(config.EnvName("store-password-file")), "file with the password of the database")
	cmd.Flags().StringVar(&data.Database.Schema, "store-schema", schema, "schema with the tables of the store")
}

// dataOrTarget adds the flags that select a store: a data directory or a database that no sidecar has
// open, or the sidecar that serves the store.
func dataOrTarget(cmd *cobra.Command, data *server.Data, c *client) {
	dataFlag(cmd, data, "data directory that no sidecar has open (default: the sidecar at --addr)")
	storeFlag(cmd, data)
	c.BindTarget(cmd)
}

// exclusive returns an error if more than one of the given flags is set on the command line.
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

// dataKeyFlag adds the flag of the encryption key. It has the same environment variable as the flag of serve.
func dataKeyFlag(cmd *cobra.Command, data *server.Data) {
	cmd.Flags().StringVar(&data.KeyFile, keyFlag, os.Getenv(config.EnvName(keyFlag)), "file with the encryption key of the directory: 16, 24 or 32 bytes, hex or base64")
}
