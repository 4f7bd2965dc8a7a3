package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/a2a"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/secretfile"
	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// CheckFiles reads all files that the configuration names and checks their contents, as [Serve] does before it opens
// the store. If one of the files is a pipe, [Serve] does not do so, because a pipe can be read only once. CheckFiles
// changes nothing and connects to nothing. The error is a *[config.Error] with the faults of all files, but no secret
// values.
func CheckFiles(c config.Config) error {
	var faults fileFaults
	if c.StorePasswordFile != "" && c.Store.Fault() == "" && config.SchemaFault(c.StoreSchema) == "" {
		_, err := databaseOf(c).reachable()
		faults.add("store_password_file", err)
	}
	_, err := readKey(c.EncryptionKeyFile)
	faults.add("encryption_key_file", err)
	rights, err := readRights(c)
	faults.add("", err)
	if (c.TLSCert == "") == (c.TLSKey == "") {
		faults.add("", grpcapi.CheckRights(grpcapi.Config{
			TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSClientCA: c.TLSClientCA, Spaces: spacesOf(c),
			Tokens: rights.Tokens, Certificates: rights.Certificates, Issuers: rights.Issuers,
		}))
	}
	if c.Audit != "" && c.AuditKey != "" {
		_, err = secretfile.Read(c.AuditKey)
		faults.add("audit_key", err)
	}
	if c.A2ACardKey != "" {
		_, err = a2a.ReadCardKey(c.A2ACardKey)
		faults.add("a2a_card_key", err)
	}
	_, err = readFiles(c)
	faults.add("", err)
	faults.add("mcp_servers", checkMCPFiles(c))
	for _, path := range c.Packs {
		faults.add("", checkPack(c, path))
	}
	return faults.err()
}

// Warnings returns likely mistakes in the configuration that are no faults: a certificate that has expired, and a data
// directory without a store, because of a typing mistake or a disk that is not mounted. now is the current time. If a file is
// a pipe, Warnings reads no certificate.
func Warnings(c config.Config, now time.Time) (warnings []config.Fault) {
	if readsPipes(c) {
		c.TLSCert, c.TLSKey, c.TLSClientCA = "", "", ""
	}
	keys, err := auth.KeyFiles{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA}.Read()
	if err == nil && keys != nil && now.After(keys.Expiry()) {
		warnings = append(warnings, config.Fault{Field: "tls_cert", Message: c.TLSCert + " expired at " + keys.Expiry().UTC().Format(time.RFC3339)})
	}
	if c.Data != "" {
		if has, err := datadir.HasStore(c.Data); err == nil && !has || errors.Is(err, fs.ErrNotExist) {
			warnings = append(warnings, config.Fault{Field: "data", Message: c.Data + " has no store: the start makes a new, empty one"})
		}
	}
	return warnings
}

// fileFaults collects the faults of files.
type fileFaults []config.Fault

// add adds the faults of err, which may consist of several errors. A fault that does not name its setting gets the name
// in setting. If setting is "", the texts of the faults already say what they are about.
func (f *fileFaults) add(setting string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			f.add(setting, one)
		}
		return
	}
	if of, ok := errors.AsType[*config.Error](err); ok {
		*f = append(*f, of.Faults...)
		return
	}
	*f = append(*f, config.Fault{Field: setting, Message: err.Error()})
}

// err returns all faults as one error, or nil.
func (f fileFaults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &config.Error{Faults: f}
}

// readsPipes reports whether a file of the configuration is no regular file, for example a pipe, which can be read only once.
func readsPipes(c config.Config) bool {
	paths := slices.Concat(reloadedFiles(c), []string{c.StorePasswordFile, c.EncryptionKeyFile, c.AuditKey, c.A2ACardKey}, c.Packs)
	for _, server := range c.MCPServers {
		paths = append(paths, server.EnvFile, server.HeadersFile)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && !info.Mode().IsRegular()
	})
}

// checkPack reads a pack file and validates it.
func checkPack(c config.Config, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	loaded, found, err := pack.Load(content, packOptions(c))
	if err == nil && loaded == nil {
		err = errFaulty
	}
	if err != nil {
		return &PackError{Path: path, Diagnostics: found, Err: err}
	}
	return nil
}
