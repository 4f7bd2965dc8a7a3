package server

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

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

// reloads reads the reloadable files again at each SIGHUP signal, when they have changed, and a while after they could not
// be applied, until ctx ends.
func (a *app) reloads(ctx context.Context, signals <-chan os.Signal, watch *fileWatch) {
	var failed error
	for {
		select {
		case <-signals:
			failed = nil
		case <-a.opts.clock.After(watchInterval):
			switch changed, again := watch.look(); {
			case changed:
				failed = nil
			case !again:
				continue
			}
		case <-ctx.Done():
			return
		}
		watch.begin()
		if failed = a.reload(ctx, failed); failed != nil {
			watch.failed()
		}
	}
}

// reload reads all reloadable files and applies them. If one of them is faulty, it applies none. Until
// reload ends, no partition is opened. If a partition cannot store the new schedules, all other files take
// effect. The partition then stores the schedules at the next reload, or when it is opened again. reload
// logs its error, unless it is the same as before, the error of the reload before.
func (a *app) reload(ctx context.Context, before error) error {
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
	if err != nil {
		if news(err, before) {
			a.audited("reload", err)
			a.opts.log.ErrorContext(ctx, "reload failed, previous settings kept", "error", err)
		}
		return err
	}
	set()
	a.opts.models.Replace(files.models)
	a.files.Store(files)
	all := a.partitions.all()
	for _, t := range all {
		t.replace(files)
	}
	if a.cluster != nil {
		a.cluster.quotas.Replace(files.quotas)
	}
	var failures []error
	for _, t := range all {
		if failed := t.schedule(ctx, files.schedules); failed != nil && slices.Contains(a.partitions.all(), t) { // otherwise the next owner has files of its own
			failures = append(failures, failed)
		}
	}
	// The order of the partitions is not specified, and equal errors must have equal texts.
	slices.SortFunc(failures, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	err = errors.Join(failures...)
	if !news(err, before) {
		return err
	}
	a.audited("reload", err)
	if err != nil {
		a.opts.log.ErrorContext(ctx, "storing schedules failed", "error", err)
	}
	warnings := Warnings(a.opts.config, a.opts.clock.Now())
	logWarnings(ctx, a.opts, slices.DeleteFunc(warnings, func(warning config.Fault) bool { return warning.Field == "data" }))
	a.opts.log.InfoContext(ctx, "files reloaded", "tokens", len(rights.Tokens), "certificates", len(rights.Certificates), "issuers", len(rights.Issuers), "models", len(files.models), "schedules", len(files.schedules), "tls", a.opts.config.TLSCert != "")
	return err
}

// news reports whether the result of a reload differs from the error of the reload before. A success always does.
func news(err, before error) bool {
	return err == nil || before == nil || err.Error() != before.Error()
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
