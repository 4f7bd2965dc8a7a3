package pg

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/store/fencing"
)

// codeOf is the SQLSTATE of what the database answered, empty if it did not.
func codeOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

// IsFull reports that the disk of the database is full.
func IsFull(err error) bool { return codeOf(err) == "53100" }

// away reports codes by which the database is unavailable for a time: connections, resources,
// an operator's intervention, the system below; a server that became read-only after a
// demotion; conflicts with other transactions; a lock that was not granted in time.
func away(code string) bool {
	switch code {
	case "25006", "40001", "40P01", "55P03", "55006":
		return true
	case "XX001", "XX002":
		// A table or an index is damaged: it does not mend itself.
		return false
	}
	for _, class := range []string{"08", "53", "57", "58", "XX"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// judged classifies the answer to a statement: an error that a retry does not change is final.
// A missing answer, or the last one of a connection, leaves the outcome unknown.
func judged(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.SeverityUnlocalized != "ERROR" || away(answer.Code) || unnamed(answer.Code) {
		return err
	}
	return &fencing.FinalError{Err: err}
}

// unnamed: a statement that was given a name is not there, or there already: a pooler is in
// between that was not noticed.
func unnamed(code string) bool { return code == "26000" || code == "42P05" }
