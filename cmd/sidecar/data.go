package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/internal/config"
)

// keyFlag is the file of a directory's encryption key, here as for serve.
const keyFlag = "encryption-key-file"

// dataFlag adds --data, and what opens the directory.
func dataFlag(cmd *cobra.Command, data *app.Data, usage string) {
	cmd.Flags().StringVar(&data.Dir, "data", "", usage)
	completeDir(cmd, "data")
	dataKeyFlag(cmd, data)
}

// dataKeyFlag adds the key alone; its variable in the environment is that of serve.
func dataKeyFlag(cmd *cobra.Command, data *app.Data) {
	cmd.Flags().StringVar(&data.KeyFile, keyFlag, os.Getenv(config.EnvName(keyFlag)), "file of the key under which the directory is encrypted")
}
