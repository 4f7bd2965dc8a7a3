// Package output prints the results of the sidecar's commands: tables for people, one stable JSON form for
// scripts, and errors with their exit codes.
//
// The JSON form has snake_case keys named as in the proto files, numbers as numbers, enum values by bare name (COMPLETED), JSON artifacts
// as JSON values, text as strings, other bytes in base64, hashes in hex, times as RFC 3339. Every field is present; unset fields are null,
// empty or zero. Of a oneof only the field that is set is present.
package output
