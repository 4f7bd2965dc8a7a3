package runtime

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Principal is who calls, or whose word something is: a name by its parts, and scopes.
type Principal = policy.Principal

// WiredPrincipal is a principal on its way to another node.
type WiredPrincipal = policy.Wire

// Scopes is a set of rights of a [Principal].
type Scopes = policy.Scopes

// Operation is one row of [Operations].
type Operation = policy.Operation

// Operations is the table of which scopes admit to what.
func Operations() []Operation { return policy.Operations }

// The scopes, by the names that they have on the wire.
const (
	ScopePacksWrite     = policy.PacksWrite     // packs:write
	ScopeRunsWrite      = policy.RunsWrite      // runs:write
	ScopeRunsRead       = policy.RunsRead       // runs:read
	ScopeEventsExternal = policy.EventsExternal // events:external
	ScopeWork           = policy.Work           // work
	ScopeAdmin          = policy.Admin          // admin
	ScopeRunsDelete     = policy.RunsDelete     // runs:delete
	ScopeRunsErase      = policy.RunsErase      // runs:erase
	ScopeBudgetsWrite   = policy.BudgetsWrite   // budgets:write

	ScopeValuesSensitive = policy.ValuesSensitive // values:sensitive
	ScopeStoreRead       = policy.StoreRead       // store:read
	ScopeStepsApprove    = policy.StepsApprove    // steps:approve
)

// Names of the sidecar itself, which no caller may have.
const (
	OwnName     = policy.OwnName
	SidecarName = policy.SidecarName
	CardsName   = policy.CardsName
)

// Anonymous is every caller while authentication is off: all scopes but admin.
func Anonymous() Principal { return policy.Anonymous() }

// Answerer is the principal of an answer that was kept with the names of its rights.
func Answerer(name string, scopes []string) Principal { return policy.Answerer(name, scopes) }

// denied gives a refusal of the policy its typed form; nil stays nil.
func Denied(err error) error {
	var d *policy.Denied
	if !errors.As(err, &d) {
		return err
	}
	return &machine.Error{
		Code: machine.CodePermissionDenied, Reason: d.Reason, Field: d.Field,
		Message: d.Message, Allowed: d.Scopes.Names(),
	}
}
