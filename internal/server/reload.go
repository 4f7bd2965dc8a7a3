package server

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth/oidc"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// readRights reads the files with tokens, certificates, issuers and keys of links. Its error contains all faults.
func readRights(c config.Config) (rights grpcapi.Rights, err error) {
	var faults fileFaults
	if c.TokensFile != "" {
		rights.Tokens, err = auth.ReadTokens(c.TokensFile)
		faults.add("tokens_file", err)
	}
	if c.CertificatesFile != "" {
		rights.Certificates, err = auth.ReadCertificates(c.CertificatesFile)
		faults.add("certificates_file", err)
	}
	if c.OIDCFile != "" {
		rights.Issuers, err = oidc.Read(c.OIDCFile)
		faults.add("oidc_file", err)
	}
	if c.LinkKeysFile != "" {
		rights.LinkKeys, err = secretfile.ReadKeys(c.LinkKeysFile)
		faults.add("link_keys_file", err)
	}
	return rights, faults.err()
}

// reloads reads the reloadable files again at each SIGHUP signal, and when they have changed, until ctx ends.
func (a *app) reloads(ctx context.Context, signals <-chan os.Signal, watch *fileWatch) {
	a.follow(watch, a.opts.rights.Issuers, a.files.Load().models)
	for {
		select {
		case <-signals:
			watch.begin()
			a.reload(ctx, watch)
		case <-a.opts.clock.After(watchInterval):
			if watch.changed() {
				a.reload(ctx, watch)
			}
		case <-ctx.Done():
			return
		}
	}
}

// follow makes the watch follow the files of the configuration, and those that these files name.
func (a *app) follow(watch *fileWatch, issuers []oidc.Issuer, models []*model.Endpoint) {
	watch.follow(slices.Concat(reloadedFiles(a.opts.config), nestedFiles(issuers, models)))
}

// reload reads all reloadable files and applies them. If one of them is faulty, it applies none. Until
// reload ends, no partition is opened. If a partition cannot store the new schedules, reload logs the
// error. The partition then stores them at the next signal, or when it is opened again. If no partition
// can store them, reload applies nothing.
func (a *app) reload(ctx context.Context, watch *fileWatch) {
	a.reading.Lock()
	defer a.reading.Unlock()
	rights, err := readRights(a.opts.config)
	files, filesErr := readFiles(a.opts.config)
	var faults fileFaults
	faults.add("", err)
	faults.add("", filesErr)
	var set func()
	if err = faults.err(); err == nil {
		set, err = a.server.ReadyRights(rights)
	}
	all, stored := a.partitions.all(), 0
	var errs []error
	for i := 0; err == nil && i < len(all); i++ {
		switch failed := all[i].schedule(ctx, files.schedules); {
		case failed == nil:
			stored++
		case slices.Contains(a.partitions.all(), all[i]): // otherwise the next owner has files of its own
			all[i].opts.log.ErrorContext(ctx, "storing schedules failed", "error", failed)
			errs = append(errs, failed)
		}
	}
	if stored == 0 {
		err = errors.Join(err, errors.Join(errs...))
	}
	a.audited("reload", errors.Join(err, errors.Join(errs...)))
	if err != nil {
		a.opts.log.ErrorContext(ctx, "reload failed, previous settings kept", "error", err)
		return
	}
	set()
	a.opts.models.Replace(files.models)
	a.files.Store(files)
	a.follow(watch, rights.Issuers, files.models)
	for _, t := range all {
		t.replace(files)
	}
	if a.cluster != nil {
		a.cluster.quotas.Replace(files.quotas)
	}
	warnings := Warnings(a.opts.config, a.opts.clock.Now())
	logWarnings(ctx, a.opts, slices.DeleteFunc(warnings, func(warning config.Fault) bool { return warning.Field == "data" }))
	a.opts.log.InfoContext(ctx, "files reloaded", "tokens", len(rights.Tokens), "certificates", len(rights.Certificates), "issuers", len(rights.Issuers), "models", len(files.models), "schedules", len(files.schedules), "tls", a.opts.config.TLSCert != "")
}

// replace applies the contents of new files (quotas, prices, limits, accounts, agents) to the
// partition.
func (t *partition) replace(files *files) {
	t.runtime.Quotas.Replace(files.quotas)
	t.prices.Replace(files.prices)
	t.runtime.Admission.Replace(files.limits)
	t.accounts.Replace(files.budgets)
	if t.sends != nil {
		t.sends.directory.agents.Replace(files.remotes)
	}
}

// files are the last valid contents of the reloadable files. A partition that is opened later uses them.
type files struct {
	remotes   map[string]client.Remote
	quotas    *quota.Table
	prices    map[string]machine.Price
	budgets   *budget.Table
	schedules []*schedule.Schedule
	models    []*model.Endpoint
	limits    *ratelimit.Table
}

// readFiles reads the reloadable files. Its error contains all faults.
func readFiles(c config.Config) (*files, error) {
	f, errs, faults := &files{}, [7]error{}, fileFaults{}
	f.remotes, errs[0] = readRemotes(c.Remotes())
	f.quotas, errs[1] = readQuotas(c, c.Served())
	f.prices, errs[2] = readPrices(c)
	f.budgets, errs[3] = readBudgets(c)
	f.models, errs[4] = readModels(c, os.LookupEnv)
	f.schedules, errs[5] = readSchedules(c, c.Served())
	f.limits, errs[6] = readLimits(c)
	for i, setting := range [len(errs)]string{"agents", "quotas_file", "prices", "budgets", "models", "schedules", "call_limits"} {
		faults.add(setting, errs[i])
	}
	return f, faults.err()
}
