package preflight

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Reason is the reason why a database cannot be used.
type Reason string

// The reasons of an [Error].
const (
	Unreachable Reason = "DATABASE_UNREACHABLE"
	NoPassword  Reason = "DATABASE_PASSWORD_REFUSED"
	NoDatabase  Reason = "DATABASE_MISSING"
	NoPlace     Reason = "DATABASE_CONNECTIONS"
	NoRight     Reason = "DATABASE_PERMISSION"
	NoTrust     Reason = "DATABASE_TLS"
	ReadOnly    Reason = "DATABASE_READ_ONLY"
	TooOld      Reason = "DATABASE_VERSION"
	Lossy       Reason = "DATABASE_LOSES_COMMITS"
	NotFollowed Reason = "DATABASE_NOT_SYNCHRONOUS"
	// Locked means that another session holds a lock on a table of the store for too long.
	Locked       Reason = "DATABASE_LOCKED"
	SchemaNewer  Reason = "SCHEMA_NEWER"
	SchemaLiving Reason = "SCHEMA_IN_USE"
	FormatNewer  Reason = "FORMAT_NEWER"
	FormatOlder  Reason = "FORMAT_OLDER"
	SchemaOther  Reason = "SCHEMA_OF_SOMETHING_ELSE"
	// SchemaReserved means that the name of the schema is a reserved word of SQL.
	SchemaReserved Reason = "SCHEMA_RESERVED"
	SchemaOwned    Reason = "SCHEMA_OWNED"
	// SchemaShared means that the namespaces of the schema are in several partitions, which a sidecar
	// without a cluster does not serve.
	SchemaShared Reason = "SCHEMA_SHARED"
	SchemaNone   Reason = "SCHEMA_EMPTY"
	SchemaOpened Reason = "DATABASE_ERROR"
)

// Error means that a database cannot be used. Its text is one line and contains the next step for the
// operator.
type Error struct {
	Reason Reason
	// Where is the address of the database without a password.
	Where   string
	Message string
	Err     error
}

// Error returns a text that begins with the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Reason, e.Where, e.Message) }

// Unwrap returns the error of the database or of the network.
func (e *Error) Unwrap() error { return e.Err }

// answers maps the SQLSTATE of a server's answer to a reason.
var answers = map[string]Reason{
	"28P01": NoPassword, "28000": NoPassword, "3D000": NoDatabase, "42501": NoRight, "25006": ReadOnly, "53300": NoPlace,
}

// remedies tell the operator what to do about some reasons. They are added to the message of the server.
var remedies = map[Reason]string{
	NoPassword: "give the password in the URL, --store-password-file, PGPASSWORD or PGPASSFILE, and let the user in by pg_hba.conf",
	NoDatabase: "make it (CREATE DATABASE), the tables are made by the sidecar",
	NoPlace:    "a sidecar has at most 18 connections, of several one more and two for each further partition, a backup and stats one each: raise max_connections, or the limit of the role or the database, or put a pooler in between",
	NoRight:    "GRANT CREATE ON DATABASE to the user, or make the schema for it (CREATE SCHEMA ... AUTHORIZATION)",
	ReadOnly:   "name the primary, or all servers with target_session_attrs=read-write in the URL",
}

// Classify converts an error of a connection or a statement to an [Error] with a reason.
func Classify(where string, err error) error {
	if err == nil {
		return nil
	}
	if classified, ok := errors.AsType[*Error](err); ok {
		return classified
	}
	classified := &Error{Reason: SchemaOpened, Where: where, Message: oneLine(err.Error()), Err: err}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		classified.Message = oneLine(answer.Message)
		if reason, known := answers[answer.Code]; known {
			classified.Reason, classified.Message = reason, classified.Message+": "+remedies[reason]
		}
		return classified
	}
	var network net.Error
	switch {
	case untrusted(err):
		classified.Reason, classified.Message = NoTrust, "TLS: "+reasonOf(err)+": see sslmode, sslrootcert, sslcert and sslkey in the URL"
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		classified.Reason, classified.Message = Unreachable, "it cannot be reached: "+reasonOf(err)
	}
	return classified
}

func untrusted(err error) bool {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) ||
		strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "refused TLS")
}

// reasonOf returns the text of the innermost error, or of the operation of the network that failed, because the
// outer errors repeat hosts and users.
func reasonOf(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return oneLine(op.Error())
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return oneLine(err.Error())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
