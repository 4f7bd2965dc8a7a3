package packs

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// RegisterRequest is the argument of [Registry.RegisterPack].
type RegisterRequest struct {
	runtime.Call
	// Document is the source of the pack, as JSON or YAML.
	Document []byte
	// Strict names a published schema that the document must satisfy exactly. "" means that the
	// operator's setting applies.
	Strict string
	// RequireBounded refuses a pack with an entry that has a loop without a bound in the pack. The
	// operator may require this for every pack.
	RequireBounded bool
	// Move allows that an existing id@version is changed to refer to other bytes.
	Move bool
	// KeepDefault means that a reference to the id without a version still means the same version as
	// before. If it is false, such a reference means the registered version from now on.
	KeepDefault bool
}

// PackAnswer is a registered pack, or the diagnostics of a document with errors.
type PackAnswer struct {
	// Row is the stored row. It is zero if the document has errors.
	Row machine.PackRow
	// Pack is the parsed pack. It is nil if the document has errors.
	Pack        *pack.Pack
	Diagnostics []pack.Diagnostic
	// Duplicate reports whether the same content (the same digest) was already registered under this id@version.
	Duplicate bool
}

// ValidatePack checks a document without storing it. It requires the scope packs:write or runs:read.
func (r *Registry) ValidatePack(req RegisterRequest) (PackAnswer, error) {
	if err := policy.Require(req.Principal, policy.PacksWrite|policy.RunsRead); err != nil {
		return PackAnswer{}, runtime.PolicyError(err)
	}
	return r.loadPack(&req)
}

// loadPack checks the document of a registration, and returns the pack with its findings.
func (r *Registry) loadPack(req *RegisterRequest) (PackAnswer, error) {
	opts := r.cfg.Options
	if req.Strict != "" {
		opts.Strict = req.Strict
	}
	opts.RequireBounded = opts.RequireBounded || req.RequireBounded
	loaded, found, err := pack.Load(req.Document, opts)
	if err != nil {
		return PackAnswer{}, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_PACK_OPTION", Field: "strict",
			Message: err.Error(), Allowed: pack.PublishedSchemas(),
		}
	}
	return PackAnswer{Pack: loaded, Diagnostics: found}, nil
}

// RegisterPack validates a document, stores it by its digest, and registers it under the name
// id@version. Registering the same bytes a second time gives the same row, with Duplicate set.
//
// Errors: INVALID_ARGUMENT PACK_INVALID for a document with errors (the answer contains the
// diagnostics); ALREADY_EXISTS PACK_VERSION_TAKEN for other bytes under an existing name without Move.
func (r *Registry) RegisterPack(ctx context.Context, req RegisterRequest) (PackAnswer, error) {
	ns, err := r.cfg.Engine.Admit(req.Call, policy.PacksWrite)
	if err != nil {
		return PackAnswer{}, err
	}
	answer, err := r.loadPack(&req)
	if err != nil {
		return PackAnswer{}, err
	}
	if answer.Pack == nil {
		return answer, packInvalid(answer.Diagnostics)
	}
	err = r.cfg.Engine.DoInFlight(func() error { return r.put(context.WithoutCancel(ctx), ns, &req, &answer) })
	return answer, err
}

// put stores a valid pack. During this time the cache resolves references only from the store.
func (r *Registry) put(ctx context.Context, ns uint32, req *RegisterRequest, answer *PackAnswer) (err error) {
	if r.cfg.Quotas.Bounded(ns, quota.Packs) {
		r.counting.Lock()
		defer r.counting.Unlock()
	}
	known, err := r.cfg.Store.Pack(ctx, ns, answer.Pack.ID+"@"+answer.Pack.Version)
	switch {
	case err == nil:
		answer.Duplicate = known.Digest == answer.Pack.Digest
	case errors.Is(err, machine.ErrNoPack):
		if err := r.oneMore(ctx, ns); err != nil {
			return err
		}
	default:
		return err
	}
	registered := r.cfg.Programs.Registering()
	defer registered()
	answer.Row, err = r.cfg.Store.PutPack(ctx, ns, machine.PackPut{
		Row: machine.PackRow{
			Digest: answer.Pack.Digest, ID: answer.Pack.ID, Version: answer.Pack.Version,
			Canonical: answer.Pack.Canonical, Source: answer.Pack.Source,
			RegisteredAt: r.cfg.Clock.Now().UnixNano(),
		},
		Move: req.Move, MakeDefault: !req.KeepDefault,
	})
	var refusal *machine.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	// After any other error it is unknown whether the pack was stored.
	return fmt.Errorf("%w: %w", machine.ErrIndeterminate, err)
}

// oneMore returns an error if another id@version would exceed the namespace's quota of packs.
func (r *Registry) oneMore(ctx context.Context, ns uint32) error {
	if !r.cfg.Quotas.Bounded(ns, quota.Packs) {
		return nil
	}
	names, after := 0, ""
	for {
		rows, next, err := r.cfg.Store.ListPacks(ctx, ns, after, validate.MaxPageSize)
		if err != nil {
			return validate.ListFailed("packs", err)
		}
		if names += len(rows); next == "" {
			return r.cfg.Quotas.CheckCount(ns, quota.Packs, names+1)
		}
		after = next
	}
}

// packInvalid returns the error for a pack with errors. It contains their number and the first of them.
func packInvalid(found []pack.Diagnostic) error {
	first, errs := "", 0
	for _, d := range found {
		if d.Severity != pack.SeverityError {
			continue
		}
		if errs++; errs == 1 {
			first = fmt.Sprintf("%s at %d:%d: %s", d.Code, d.Line, d.Column, d.Message)
		}
	}
	if errs > 1 {
		first = fmt.Sprintf("%d errors, the first is %s", errs, first)
	}
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "PACK_INVALID", Field: "document", Message: first, Got: int64(errs),
	}
}

// GetPack returns a registered pack by "id", "id@version" or digest.
func (r *Registry) GetPack(ctx context.Context, call runtime.Call, ref string) (PackAnswer, error) {
	ns, err := r.packNamespace(call)
	if err != nil {
		return PackAnswer{}, err
	}
	row, err := r.cfg.Programs.Row(ctx, ns, ref)
	if err != nil {
		return PackAnswer{}, err
	}
	document := row.Source
	if len(document) == 0 {
		document = row.Canonical
	}
	loaded, found, err := pack.Load(document, pack.Options{Limits: r.cfg.Options.Limits, Providers: r.cfg.Options.Providers, Accepted: true})
	if err != nil {
		return PackAnswer{}, fmt.Errorf("runtime: pack %q: %w", ref, err)
	}
	return PackAnswer{Row: row, Pack: loaded, Diagnostics: found}, nil
}

// PackPage is one page of packs.
type PackPage struct {
	Packs []machine.PackRow
	// NextPage is the token of the next page. It is "" if there is none.
	NextPage string
}

// ListPacks lists the registered packs, ordered by id and version. size is the largest number of packs
// in the page, at most 1 000. 0 means 100.
func (r *Registry) ListPacks(ctx context.Context, call runtime.Call, pageToken string, size int) (PackPage, error) {
	ns, err := r.packNamespace(call)
	if err != nil {
		return PackPage{}, err
	}
	if size, err = validate.PageSize(size); err != nil {
		return PackPage{}, err
	}
	rows, next, err := r.cfg.Store.ListPacks(ctx, ns, pageToken, size)
	if err != nil {
		return PackPage{}, validate.ListFailed("packs", err)
	}
	return PackPage{Packs: rows, NextPage: next}, nil
}

func (r *Registry) packNamespace(call runtime.Call) (uint32, error) {
	return r.cfg.Engine.Admit(call, policy.PacksWrite|policy.RunsRead|policy.RunsWrite)
}

// PackContent returns a registered pack by its digest, from the cache if possible and without the
// diagnostics. Its Source is the document as it was registered.
func (r *Registry) PackContent(ctx context.Context, namespace, digest string) (*pack.Pack, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	return r.cfg.Programs.Pack(ctx, ns, digest)
}

// PackNamed returns a registered pack by "id", "id@version" or digest, from the cache if possible and
// without the diagnostics.
func (r *Registry) PackNamed(ctx context.Context, call runtime.Call, ref string) (*pack.Pack, error) {
	ns, err := r.packNamespace(call)
	if err != nil {
		return nil, err
	}
	digest, err := r.cfg.Programs.Resolve(ctx, ns, ref)
	if err != nil {
		return nil, err
	}
	return r.cfg.Programs.Pack(ctx, ns, digest)
}

// PackRegistered returns the time when a pack was registered, in Unix nanoseconds.
func (r *Registry) PackRegistered(ctx context.Context, call runtime.Call, ref string) (int64, error) {
	ns, err := r.packNamespace(call)
	if err != nil {
		return 0, err
	}
	row, err := r.cfg.Programs.Row(ctx, ns, ref)
	return row.RegisteredAt, err
}
