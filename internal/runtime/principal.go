package runtime

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Principal is the authenticated caller. It consists of a name, which has several parts, and of scopes.
type Principal = policy.Principal

// WiredPrincipal is a principal in the form in which it is sent to another node.
type WiredPrincipal = policy.Wire

// Scopes is a set of rights of a [Principal].
type Scopes = policy.Scopes

// Operation is one row of [Operations].
type Operation = policy.Operation

// Operations returns the table of operations with the scopes that allow each.
func Operations() []Operation { return policy.Operations }

// These are the scopes. The comment of each one is its name in the contract.
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

// These are the names of the sidecar itself. No caller may have them.
const (
	OwnName     = policy.OwnName
	SidecarName = policy.SidecarName
	CardsName   = policy.CardsName
)

// Anonymous returns the principal of every caller while authentication is off. It has all scopes except
// admin.
func Anonymous() Principal { return policy.Anonymous() }

// Answerer returns the principal that gave a stored answer. The answer is stored with the name of the
// principal and the names of its scopes.
func Answerer(name string, scopes []string) Principal { return policy.Answerer(name, scopes) }

// Denied converts an error of the policy to a [machine.Error]. Other errors and nil are returned
// unchanged.
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
