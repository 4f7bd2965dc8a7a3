package app

import (
	"context"
	"errors"
	"os"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/oidc"
)

// readRights reads the files that say who may call.
func readRights(c config.Config) (rights grpcapi.Rights, err error) {
	var tokenErr, certErr, issuerErr error
	if c.TokensFile != "" {
		rights.Tokens, tokenErr = door.ReadTokens(c.TokensFile)
	}
	if c.CertificatesFile != "" {
		rights.Certificates, certErr = door.ReadCertificates(c.CertificatesFile)
	}
	if c.OIDCFile != "" {
		rights.Issuers, issuerErr = oidc.Read(c.OIDCFile)
	}
	return rights, errors.Join(tokenErr, certErr, issuerErr)
}

// reloads reads the files of rights and keys again at each signal until ctx ends.
func (a *app) reloads(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
			a.reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload takes all of the files or, if one of them is faulty, none.
func (a *app) reload(ctx context.Context) {
	rights, err := readRights(a.opts.config)
	remotes, remotesErr := readRemotes(a.opts.config.Remotes())
	quotas, quotasErr := readQuotas(a.opts.config, a.engine.Namespaces())
	prices, pricesErr := readPrices(a.opts.config)
	budgets, budgetsErr := readBudgets(a.opts.config)
	schedules, schedulesErr := readSchedules(a.opts.config, a.engine.Namespaces())
	models, modelsErr := readModels(a.opts.config, os.LookupEnv)
	limits, limitsErr := readLimits(a.opts.config)
	if err = errors.Join(err, remotesErr, quotasErr, pricesErr, budgetsErr, modelsErr, schedulesErr, limitsErr); err == nil {
		err = a.server.SetRights(rights)
	}
	if err == nil {
		err = a.schedule(ctx, schedules)
	}
	a.audited("reload", err)
	if err != nil {
		a.opts.log.ErrorContext(ctx, "reload failed: tokens, certificates, keys, quotas, limits, budgets, schedules, models and prices stay as they were", "error", err)
		return
	}
	a.engine.Quotas.Replace(quotas)
	a.prices.Replace(prices)
	a.engine.Admission.Replace(limits)
	a.accounts.Replace(budgets)
	a.opts.models.Replace(models)
	if a.sends != nil {
		a.sends.directory.agents.Replace(remotes)
	}
	a.opts.log.InfoContext(ctx, "reloaded", "tokens", len(rights.Tokens), "certificates", len(rights.Certificates), "issuers", len(rights.Issuers), "models", len(models), "schedules", len(schedules), "tls", a.opts.config.TLSCert != "")
}
