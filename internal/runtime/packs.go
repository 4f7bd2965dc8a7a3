package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// RegisterRequest is the argument of [Engine.RegisterPack].
type RegisterRequest struct {
	Call
	// Document is JSON or YAML.
	Document []byte
	// Strict names a published schema to apply exactly; "" = Config.Pack's.
	Strict string
	// RequireBounded refuses a pack with an entry whose loop nothing of the pack
	// bounds. Config.Pack may ask for it of every pack.
	RequireBounded bool
	// Move lets a taken id@version name other bytes.
	Move bool
	// KeepDefault leaves what the bare id means; else it means this version.
	KeepDefault bool
}

// PackAnswer is a registered pack, or why a document is none.
type PackAnswer struct {
	// Row is as it is stored; zero if the document has errors.
	Row machine.PackRow
	// Pack is nil if the document has errors.
	Pack        *pack.Pack
	Diagnostics []pack.Diagnostic
	// Duplicate: the same bytes already had this name.
	Duplicate bool
}

// ValidatePack reads a document and stores nothing. Takes the scope packs:write
// or runs:read.
func (e *Engine) ValidatePack(req RegisterRequest) (PackAnswer, error) {
	if err := policy.Require(req.Principal, policy.PacksWrite|policy.RunsRead); err != nil {
		return PackAnswer{}, Denied(err)
	}
	return e.loadPack(&req)
}

func (e *Engine) loadPack(req *RegisterRequest) (PackAnswer, error) {
	opts := e.cfg.Pack
	if req.Strict != "" {
		opts.Strict = req.Strict
	}
	opts.RequireBounded = opts.RequireBounded || req.RequireBounded
	loaded, found, err := pack.Load(req.Document, opts)
	if err != nil {
		return PackAnswer{}, &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "BAD_PACK_OPTION", Field: "strict",
			Message: err.Error(), Allowed: pack.PublishedSchemas(),
		}
	}
	return PackAnswer{Pack: loaded, Diagnostics: found}, nil
}

// RegisterPack validates a document, stores it by its digest and names it
// id@version. The same bytes again are the same answer. A document with errors
// is INVALID_ARGUMENT PACK_INVALID; the answer still has the diagnostics. Other
// bytes under a taken name are ALREADY_EXISTS PACK_VERSION_TAKEN without Move.
func (e *Engine) RegisterPack(ctx context.Context, req RegisterRequest) (PackAnswer, error) {
	ns, err := e.namespace(req.Namespace)
	if err != nil {
		return PackAnswer{}, err
	}
	if err := policy.Require(req.Principal, policy.PacksWrite); err != nil {
		return PackAnswer{}, Denied(err)
	}
	answer, err := e.loadPack(&req)
	if err != nil {
		return PackAnswer{}, err
	}
	if answer.Pack == nil {
		return answer, packInvalid(answer.Diagnostics)
	}
	if err := e.gate.enter(); err != nil {
		return answer, err
	}
	defer e.gate.leave()
	if known, err := e.store.Pack(ctx, ns, answer.Pack.ID+"@"+answer.Pack.Version); err == nil {
		answer.Duplicate = known.Digest == answer.Pack.Digest
	}
	registered := e.programs.Registering()
	defer registered()
	answer.Row, err = e.store.PutPack(context.WithoutCancel(ctx), ns, machine.PackPut{
		Row: machine.PackRow{
			Digest: answer.Pack.Digest, ID: answer.Pack.ID, Version: answer.Pack.Version,
			Canonical: answer.Pack.Canonical, Source: answer.Pack.Source,
			RegisteredAt: e.cfg.Clock.Now().UnixNano(),
		},
		Move: req.Move, MakeDefault: !req.KeepDefault,
	})
	return answer, e.putFailed(err)
}

// putFailed says what a failed registration means, like uncommitted.
func (e *Engine) putFailed(err error) error {
	var refusal *machine.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	e.gate.fail()
	return commitUnknown()
}

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
	return &machine.Refusal{
		Code: machine.CodeInvalidArgument, Reason: "PACK_INVALID", Field: "document", Message: first, Got: int64(errs),
	}
}

// GetPack returns a registered pack by "id", "id@version" or digest.
func (e *Engine) GetPack(ctx context.Context, call Call, ref string) (PackAnswer, error) {
	ns, err := e.packNamespace(call)
	if err != nil {
		return PackAnswer{}, err
	}
	row, err := e.programs.Row(ctx, ns, ref)
	if err != nil {
		return PackAnswer{}, err
	}
	document := row.Source
	if len(document) == 0 {
		document = row.Canonical
	}
	loaded, found, err := pack.Load(document, pack.Options{Limits: e.cfg.Pack.Limits, Accepted: true})
	if err != nil {
		return PackAnswer{}, fmt.Errorf("runtime: pack %q: %w", ref, err)
	}
	return PackAnswer{Row: row, Pack: loaded, Diagnostics: found}, nil
}

// PackPage is one page of packs.
type PackPage struct {
	Packs []machine.PackRow
	// NextPage is "" after the last page.
	NextPage string
}

// ListPacks lists the registered packs by id and version. size is at most
// 1 000; 0 = 100.
func (e *Engine) ListPacks(ctx context.Context, call Call, pageToken string, size int) (PackPage, error) {
	ns, err := e.packNamespace(call)
	if err != nil {
		return PackPage{}, err
	}
	if size, err = request.PageSize(size); err != nil {
		return PackPage{}, err
	}
	rows, next, err := e.store.ListPacks(ctx, ns, pageToken, size)
	if err != nil {
		return PackPage{}, request.ListFailed("packs", err)
	}
	return PackPage{Packs: rows, NextPage: next}, nil
}

func (e *Engine) packNamespace(call Call) (uint32, error) {
	ns, err := e.namespace(call.Namespace)
	if err != nil {
		return 0, err
	}
	return ns, Denied(policy.Require(call.Principal, policy.PacksWrite|policy.RunsRead|policy.RunsWrite))
}
